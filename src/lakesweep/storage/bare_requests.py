"""Many small requests in their keys' order, from one thread as far as their answers are plain."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, Protocol, TypeVar

from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.http_answer import Answer
from lakesweep.storage.multiplexer import Multiplexer
from lakesweep.storage.s3.pages import Page
from lakesweep.storage.translate import THROTTLE_STATUSES

Result = TypeVar("Result")
Told_co = TypeVar("Told_co", covariant=True)


class BareKeyRequests(Protocol[Told_co]):
    """Requests of one kind, each given by its key alone."""

    @property
    def method(self) -> Literal["GET", "HEAD"]: ...

    def request(self, key: str) -> bytes | None:
        """The request for a key, as all its bytes; None where it can't be made, or not just now."""

    def result(self, key: str, answer: Answer) -> Told_co | None:
        """What an answer says; None for one that is not the usual success."""


class _Carried(Protocol):
    """Requests that know what carries them."""

    def multiplexer(self) -> Multiplexer | None:
        """What carries the requests; None where nothing can."""


class StoreKeyRequests(BareKeyRequests[Told_co], _Carried, Protocol[Told_co]):
    """Requests to a store."""


class BareListRequests(_Carried, Protocol):
    """Requests to a store for the pages of listings."""

    def request(self, prefix: str, start_after: str | None, token: str | None) -> bytes | None:
        """The request for the first page after a key, or for the page that a token stands for; None as for a key."""

    def page(self, answer: Answer, token: str | None) -> Page | None:
        """The page that was asked for, by a token or by none; None for an answer that is not the usual success."""


def ordered_requests(
    keys: Iterable[str],
    requests: BareKeyRequests[Result],
    multiplexer: Multiplexer,
    ask: Callable[[str], Result],
    congestion: CongestionControl,
    most: int,
) -> Generator[tuple[str, Result], None, None]:
    """(key, result) in the order of `keys`; at most `most` requests are under way, and `2 × most` results wait.

    A key without a plain answer is asked for again by `ask`, in a thread: it tries again, waits out throttling, and
    raises what is the matter.
    """
    waiting = enumerate(keys)
    upcoming = next(waiting, None)
    asked: dict[int, str] = {}  # in the order of the keys
    told: dict[int, Result] = {}
    repeated: dict[int, Future[Result]] = {}
    pool = ThreadPoolExecutor(most, thread_name_prefix="lakesweep-store")
    is_head = requests.method == "HEAD"
    is_left = False
    try:
        with multiplexer:
            while upcoming is not None or asked:
                while upcoming is not None and len(asked) < 2 * most:
                    place, key = upcoming
                    # No room is held for these requests: whoever reads the results may wait for room with another request.
                    if multiplexer.in_flight >= congestion.limit(folder_of(key)):
                        break
                    asked[place] = key
                    request = requests.request(key)
                    if request is None:
                        repeated[place] = pool.submit(ask, key)
                    else:
                        multiplexer.send(place, request, is_head=is_head)
                    upcoming = next(waiting, None)
                first = next(iter(asked))
                if first in told:
                    yield asked.pop(first), told.pop(first)
                    continue
                if first in repeated:
                    yield asked.pop(first), repeated.pop(first).result()
                    continue
                for place, answer in multiplexer.wait():
                    key = asked[place]
                    result = None if answer is None else requests.result(key, answer)
                    if result is not None:
                        told[place] = result
                        congestion.succeeded(folder_of(key))
                        continue
                    if answer is not None and answer.status in THROTTLE_STATUSES:
                        congestion.throttled(folder_of(key))
                    repeated[place] = pool.submit(ask, key)
    except GeneratorExit:
        is_left = True
        raise
    finally:
        pool.shutdown(wait=not is_left, cancel_futures=True)


def folder_of(key: str) -> str:
    """The part of a key that stores throttle by."""
    return key[: key.rfind("/") + 1]
