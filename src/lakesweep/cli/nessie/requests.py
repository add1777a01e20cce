"""What the options ask of a run. Everything that can be wrong with a value is found here, before a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.catalog_client import check_reverifying
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.cutoff_policies import parse_policies, parse_policy
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.resolve import errors_naming

if TYPE_CHECKING:
    from lakesweep.collector.nessie.requests import ExpireRequest, MarkRequest
    from lakesweep.collector.nessie.what_if.what_if import CutoffsRequest

__all__ = ["cutoffs_request", "expire_request", "mark_request"]


def mark_request(options: OptionValues, *, collects_dropped: bool | None = None) -> MarkRequest:
    """What the options ask of a mark. A wrong policy is found here, before there is a live set.

    Args:
        collects_dropped: whether dropped tables are collected, where `--collect-dropped` does not say it.
    """
    from lakesweep.collector.nessie.requests import MarkRequest

    reference_time = _reference_time(options)
    default, texts = options["default_cutoff"], tuple(options["cutoff"].items())
    with errors_naming(options.where("default_cutoff")):
        parse_policy(default, reference_time)
    with errors_naming(options.where("cutoff")):
        policies = parse_policies(default, texts, reference_time)
    return MarkRequest(
        policies=policies,
        reference_time=reference_time,
        default_policy=default,
        policy_texts=texts,
        keep_state_at_cutoff=options["keep_state_at_cutoff"],
        dropped_grace=_dropped_grace(options, collects_dropped),
        parallelism=options["identify_parallelism"],
    )


def cutoffs_request(options: OptionValues, days: tuple[int, ...]) -> CutoffsRequest:
    """What the options ask of a what-if that shows these days."""
    from lakesweep.collector.nessie.what_if.what_if import CutoffsRequest

    reference_time = _reference_time(options)
    with errors_naming(options.where("cutoff")):
        policies = parse_policies("NONE", tuple(options["cutoff"].items()), reference_time)
    return CutoffsRequest(
        policies=policies,
        reference_time=reference_time,
        keep_state_at_cutoff=options["keep_state_at_cutoff"],
        keep_all_snapshots=options["keep_all_snapshots"],
        grace=options["grace"],
        days=days,
        price=options["price"],
        parallelism=options["identify_parallelism"],
        save=not options["no_save"],
    )


def expire_request(
    options: OptionValues,
    live_set_id: LiveSetId,
    *,
    defer: bool = False,
    is_in_memory: bool = False,
) -> ExpireRequest:
    """What the options ask of a sweep of that live set, or of the deletion of its recorded files."""
    from lakesweep.collector.nessie.requests import ExpireRequest

    check_reverifying(options)
    for name in ("expected_file_count", "fpp", "allowed_fpp"):
        _ = options[name]  # they change nothing here, and a wrong one does not go unseen
    return ExpireRequest(
        live_set_id=live_set_id,
        defer=defer,
        max_file_modification=options["max_file_modification"],
        grace=_grace(options),
        keep_all_snapshots=options["keep_all_snapshots"],
        give_up=frozenset(options["give_up"]),
        max_delete_share=options["max_delete_share"],
        confirm=options["confirm"],
        is_in_memory=is_in_memory,
        is_catalog_moved=options["catalog_moved"],
        parallelism=options["expiry_parallelism"],
    )


def _reference_time(options: OptionValues) -> datetime:
    """The time from which durations count back: that of the user, or now."""
    wanted: datetime | None = options["cutoff_ref_time"]
    now = datetime.now(UTC)
    if wanted is None:
        return now
    # A clock that it was read from may be ahead of ours.
    if wanted > now + SAFETY_FULL.clock_skew:
        raise ConfigError(
            f"{options.where('cutoff_ref_time')}: {format_time(wanted)} lies in the future, and durations that count back "
            "from there keep less than they say. Nothing was touched.",
            kind="now-in-future",
        )
    return wanted


def _grace(options: OptionValues) -> timedelta | None:
    """The grace period that is asked of a sweep; None where none is, or where a time on the command line takes its place."""
    name = "max_file_modification"
    is_time_of_environment = options.is_given(name) and not options.is_on_command_line(name)
    # A time from the environment may only keep more, so the grace holds beside it.
    return options["grace"] if options.is_given("grace") or is_time_of_environment else None


def _dropped_grace(options: OptionValues, is_wanted: bool | None) -> timedelta | None:
    """How long dropped tables stay; None where none is collected."""
    grace: timedelta = options["dropped_grace"]
    if is_wanted is None:
        is_wanted = options["collect_dropped"]
        if options.is_on_command_line("dropped_grace") and not is_wanted:
            raise ConfigError(
                "--dropped-grace says how long dropped tables stay, and without --collect-dropped they stay for good. "
                "Nothing was touched. Give both, or none.",
                kind="no-collect-dropped",
            )
    return grace if is_wanted else None
