"""From what was given to what a run is asked. Everything that can be wrong with a value is found here, before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.parsing import (
    ShownZone,
    count,
    instant,
    machine_zone,
    probability,
    zone,
    zoned_time,
)
from lakesweep.domain.cutoff_policies import parse_policies, parse_policy
from lakesweep.domain.durations import format_duration, parse_duration
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import ConfigError
from lakesweep.settings.declared import DEFAULT_MAX_DELETE_SHARE

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.client import NessieClient
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
    from lakesweep.collector.nessie.requests import ExpireRequest, MarkRequest

__all__ = [
    "deferred_request",
    "expire_request",
    "mark_request",
    "nessie_client",
    "reverifying_client",
    "shown_zone",
]

_CLIENTS = ("JavaHttp", "URLConnection", "ApacheHttp", "HTTP")
_HTTP_BUILDERS = "org.projectnessie.client.http."
_SHORTEST_SAFE_GRACE = timedelta(hours=24)
_SHORTEST_SAFE_DROPPED_GRACE = timedelta(days=30)


def shown_zone(given: Given) -> ShownZone:
    """The zone that times are shown in."""
    return given.read("time_zone", zone) or machine_zone()


def mark_request(given: Given, *, collects_dropped: bool | None = None) -> MarkRequest:
    """What the options ask of a mark. A wrong policy is found here, before there is a live set.

    Whether it collects dropped tables is `--collect-dropped`'s to say, where `collects_dropped` does not.
    """
    from lakesweep.collector.nessie.requests import MarkRequest

    reference_time = given.read("cutoff_ref_time", zoned_time) or datetime.now(UTC)
    default = given.must_read("default_cutoff", str.strip)
    given.read("default_cutoff", lambda text: parse_policy(text, reference_time))
    texts = tuple(given.pairs("cutoff").items())
    try:
        policies = parse_policies(default, texts, reference_time)
    except ConfigError as error:
        raise ConfigError(
            f"{given.where('cutoff')}: {error.message} Nothing was touched.", kind=error.kind
        ) from None
    return MarkRequest(
        policies=policies,
        reference_time=reference_time,
        default_policy=default,
        policy_texts=texts,
        keep_state_at_cutoff=given.switch("keep_state_at_cutoff"),
        dropped_grace=_dropped_grace(given, collects_dropped),
        parallelism=given.must_read("identify_parallelism", count(1)),
    )


def expire_request(
    given: Given, live_set_id: LiveSetId, *, defer: bool, is_in_memory: bool = False
) -> ExpireRequest:
    """What the options ask of a sweep of that live set."""
    from lakesweep.collector.nessie.requests import ExpireRequest

    _check_reverifying(given)
    _check_sweep_options(given)
    return ExpireRequest(
        live_set_id=live_set_id,
        defer=defer,
        max_file_modification=given.read("max_file_modification", instant),
        grace=_sweep_grace(given),
        keep_all_snapshots=given.switch("keep_all_snapshots"),
        give_up=frozenset(given.values("give_up")),
        max_delete_share=_share(given),
        confirm=given.text("confirm"),
        is_in_memory=is_in_memory,
        is_catalog_moved=given.switch("catalog_moved"),
        parallelism=given.must_read("expiry_parallelism", count(1)),
    )


def deferred_request(given: Given, live_set_id: LiveSetId) -> ExpireRequest:
    """What the options ask of the deletion of recorded files."""
    from lakesweep.collector.nessie.requests import ExpireRequest

    _check_reverifying(given)
    return ExpireRequest(
        live_set_id=live_set_id,
        grace=_grace(given),
        keep_all_snapshots=given.switch("keep_all_snapshots"),
        give_up=frozenset(given.values("give_up")),
        max_delete_share=_share(given),
        confirm=given.text("confirm"),
        is_catalog_moved=given.switch("catalog_moved"),
    )


def _check_sweep_options(given: Given) -> None:
    """Options that mean nothing here are still read, so that a wrong one does not go unseen."""
    given.must_read("expected_file_count", count(1))
    given.must_read("fpp", probability)
    given.must_read("allowed_fpp", probability)


@contextmanager
def nessie_client(given: Given) -> Iterator[NessieClient]:
    """A client of the catalog, closed with the block."""
    from lakesweep.catalogs.nessie.client import NessieClient

    _check_client_names(given)
    uri = given.must_read("uri", str.strip)
    with NessieClient(uri, given.pairs("nessie_option")) as client:
        yield client


@contextmanager
def reverifying_client(
    given: Given, live_sets: LiveSetStore, live_set_id: LiveSetId, *, is_to_delete: bool = True
) -> Iterator[NessieClient | None]:
    """A client of the catalog that the set was marked from; None where nothing is deleted, or nobody is to be asked."""
    from lakesweep.catalogs.nessie.client import NessieClient

    if given.switch("no_reverify"):
        yield None
    elif given.is_given("uri"):
        with nessie_client(given) as client:
            yield client
    elif not is_to_delete:
        yield None
    else:
        address = _marked_address(live_sets, live_set_id)
        with NessieClient(address, given.pairs("nessie_option")) as client:
            yield client


def _check_reverifying(given: Given) -> None:
    """What is wrong with the options of the second look shows before a database is opened."""
    from lakesweep.catalogs.nessie.transport import catalog_url

    _check_client_names(given)
    if given.is_given("uri"):
        catalog_url(given.must_read("uri", str.strip))
    if given.switch("no_reverify") and given.is_on_command_line("uri"):
        raise ConfigError(
            "--uri says where to ask again, --no-reverify not to. Nothing was touched. Leave one of them out.",
            kind="ambiguous-reverify",
        )


def _marked_address(live_sets: LiveSetStore, live_set_id: LiveSetId) -> str:
    """Where the mark found the catalog."""
    facts = live_sets.facts(live_set_id)
    if facts is None:
        raise ConfigError(
            f"Live set {live_set_id} was marked by nessie-gc, which does not store where its Nessie is, so what became live "
            "since the mark is not known. Nothing was deleted. Give --uri, or --no-reverify to go without asking.",
            kind="no-catalog-address",
        )
    return facts.catalog_uri


def _check_client_names(given: Given) -> None:
    """Java's clients are named in scripts; ours takes the place of those that speak HTTP."""
    name, builder = given.text("nessie_client"), given.text("nessie_api")
    if name is not None and name not in _CLIENTS:
        raise _no_such_client(given.where("nessie_client"), name, _CLIENTS)
    if builder is not None and not builder.startswith(_HTTP_BUILDERS):
        raise _no_such_client(given.where("nessie_api"), builder, [f"{_HTTP_BUILDERS}…"])


def _no_such_client(where: str, name: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{where} {name}: Java classes can't be loaded here. Nothing was touched. Leave it out; {', '.join(known)} "
        "are accepted and mean lakesweep's own client.",
        kind="no-such-client",
    )


def _sweep_grace(given: Given) -> timedelta | None:
    """None where a time on the command line takes the place of the grace period."""
    is_time_on_command_line = given.is_on_command_line("max_file_modification")
    return None if is_time_on_command_line and not given.is_given("grace") else _grace(given)


def _grace(given: Given) -> timedelta:
    return _guarded_grace(given, "grace", _SHORTEST_SAFE_GRACE)


def _dropped_grace(given: Given, is_wanted: bool | None) -> timedelta | None:
    """None where nothing of dropped tables is to be collected."""
    grace = _guarded_grace(given, "dropped_grace", _SHORTEST_SAFE_DROPPED_GRACE)
    if is_wanted is None:
        is_wanted = given.switch("collect_dropped")
        if given.is_on_command_line("dropped_grace") and not is_wanted:
            raise ConfigError(
                "--dropped-grace says how long dropped tables stay, and without --collect-dropped they stay for good. "
                "Nothing was touched. Give both, or none.",
                kind="no-collect-dropped",
            )
    return grace if is_wanted else None


def _guarded_grace(given: Given, name: str, shortest: timedelta) -> timedelta:
    grace = given.must_read(name, parse_duration)
    if grace < shortest and not given.is_on_command_line(name):
        raise ConfigError(
            f"{given.where(name)}: a grace period below {format_duration(shortest)} works on the "
            "command line only, because it lowers a guard. Nothing was touched.",
            kind="command-line-only",
        )
    return grace


def _share(given: Given) -> float:
    share = given.must_read("max_delete_share", _percent)
    if share > DEFAULT_MAX_DELETE_SHARE and not given.is_on_command_line("max_delete_share"):
        raise ConfigError(
            f"{given.where('max_delete_share')}: a share above {DEFAULT_MAX_DELETE_SHARE:g} % works on the command line "
            "only, because it lowers a guard. Nothing was touched.",
            kind="command-line-only",
        )
    return share


def _percent(text: str) -> float:
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise ConfigError(f"{text!r} is not a percentage from 0 to 100.", kind="bad-number")
    return number
