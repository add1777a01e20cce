"""Numbers for Prometheus, in its text format: requests as this process served them, and what lies in the lake."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from lakesweep.lake.api.observing import Visit
from lakesweep.lake.counting import LakeCounts, count_lake
from lakesweep.lake.lake import Lake

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKET_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
# Counting reads rows, so scrapes in quick succession share a count.
_COUNT_SECONDS = 30.0


@dataclass(slots=True)
class _Latency:
    buckets: list[int]
    """Requests between two bounds; those above all bounds come last."""
    seconds: float = 0.0


class Metrics:
    """Counts what it is told of, and writes it down with the lake's own numbers."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._requests: Counter[tuple[str, int]] = Counter()
        self._latencies: dict[str, _Latency] = {}
        self._bytes_received = 0
        self._bytes_sent = 0
        self._count_turn = threading.Lock()
        self._counted: tuple[float, LakeCounts] | None = None

    def answered(self, visit: Visit) -> None:
        """Nothing is known yet that counts."""

    def ended(self, visit: Visit) -> None:
        """Count a request. An operation is one of a fixed set, so that strangers can't add series."""
        operation = visit.operation or "unknown"
        self._requests[operation, visit.status or 0] += 1
        latency = self._latencies.setdefault(operation, _Latency([0] * (len(_BUCKET_SECONDS) + 1)))
        latency.seconds += visit.seconds
        latency.buckets[bisect_left(_BUCKET_SECONDS, visit.seconds)] += 1
        self._bytes_received += visit.bytes_received
        self._bytes_sent += visit.bytes_sent

    def render(self) -> str:
        """The page that Prometheus reads."""
        return (
            "\n".join([*self._request_lines(), *self._lake_lines(), *self._hard_delete_lines()])
            + "\n"
        )

    def _request_lines(self) -> Iterator[str]:
        # Copies: this runs in a thread, and the event loop goes on counting.
        requests, latencies = dict(self._requests), dict(self._latencies)
        yield from _series(
            "requests_total",
            "counter",
            "Requests by operation and status; 0 for a client that got no answer.",
            (
                (f'{{operation="{operation}",status="{status}"}}', count)
                for (operation, status), count in sorted(requests.items())
            ),
        )
        name = "lakesweep_lake_request_seconds"
        yield f"# HELP {name} Time from a request's headers to the last byte of its answer."
        yield f"# TYPE {name} histogram"
        for operation, latency in sorted(latencies.items()):
            label = f'operation="{operation}"'
            total = sum(n for (op, _), n in requests.items() if op == operation)
            below = accumulate(latency.buckets)
            for upper, count in zip(_BUCKET_SECONDS, below, strict=False):
                yield f'{name}_bucket{{{label},le="{upper}"}} {count}'
            yield f'{name}_bucket{{{label},le="+Inf"}} {total}'
            yield f"{name}_sum{{{label}}} {latency.seconds:.6f}"
            yield f"{name}_count{{{label}}} {total}"
        sizes = [
            ('{direction="received"}', self._bytes_received),
            ('{direction="sent"}', self._bytes_sent),
        ]
        yield from _series("bytes_total", "counter", "Bytes of bodies.", sizes)

    def _lake_lines(self) -> Iterator[str]:
        counts = self._count()
        gauges = (
            ("repositories", "Repositories.", counts.repositories),
            ("staged_entries", "Entries that are not committed.", counts.staged),
            ("pending_uploads", "Uploads under way and addresses not linked yet.", counts.pending),
            ("pending_oldest_seconds", "Age of the oldest of them.", counts.pending_oldest_seconds),
            ("tracked_copies", "Copies that a collection must still count.", counts.copies),
            ("hard_delete_queue", "Dropped objects that wait for a review.", counts.queued),
            (
                "hard_delete_queue_oldest_seconds",
                "Age of the drop of the one that is due first.",
                counts.queued_oldest_seconds,
            ),
            ("counts_are_cut", "1 when a number above is a lower bound.", int(counts.is_cut)),
        )
        for name, what, value in gauges:
            yield from _series(name, "gauge", what, [("", value)])
        began = self._lake.slices.begun
        yield from _series(
            "slices_total", "counter", "Slices that this process began.", [("", began)]
        )

    def _hard_delete_lines(self) -> Iterator[str]:
        counts = self._lake.reviewer.counts
        totals = (
            (
                "hard_deleted_objects_total",
                "Objects that this process's reviews deleted.",
                counts.deleted_objects,
            ),
            ("hard_deleted_bytes_total", "Bytes of those objects.", counts.deleted_bytes),
            ("hard_delete_kept_total", "Reviewed objects that something referred to.", counts.kept),
            ("hard_delete_failed_total", "Deletes that the store did not do.", counts.failed),
            (
                "hard_delete_refusals_total",
                "Operations refused for the sake of a delete.",
                self._lake.fence.refusals,
            ),
        )
        for name, what, value in totals:
            yield from _series(name, "counter", what, [("", value)])
        name = "lakesweep_lake_hard_delete_seconds"
        yield f"# HELP {name} Time from the last dereference of an object to its end."
        yield f"# TYPE {name} histogram"
        latencies = dict(counts.latencies)
        below = accumulate(latencies.get(bound, 0) for bound in counts.bounds)
        for upper, count in zip(counts.bounds, below, strict=True):
            yield f'{name}_bucket{{le="{upper}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {sum(latencies.values())}'
        yield f"{name}_sum {counts.latency_seconds:.6f}"
        yield f"{name}_count {sum(latencies.values())}"

    def _count(self) -> LakeCounts:
        with self._count_turn:
            now = time.monotonic()
            if self._counted is None or now >= self._counted[0] + _COUNT_SECONDS:
                self._counted = (now, count_lake(self._lake))
            return self._counted[1]


def _series(name: str, kind: str, what: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP lakesweep_lake_{name} {what}"
    yield f"# TYPE lakesweep_lake_{name} {kind}"
    for labels, value in samples:
        yield f"lakesweep_lake_{name}{labels} {value}"
