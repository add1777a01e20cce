"""Which commits of a Nessie reference are too old to be live: by number, by time, or none at all.

A policy is one of `NONE`, a number of commits (`10`), a duration before a reference time (`P10D`, `PT10H`) and a time
(`2011-12-03T10:15:30Z`), tried in this order, as `nessie-gc` does. The commit at a reference's head is live under every
policy; that is the walk's rule and not the policy's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lakesweep.domain.durations import format_time
from lakesweep.domain.java_patterns import compile_java_pattern
from lakesweep.errors import ConfigError

__all__ = [
    "CutoffPolicies",
    "CutoffPolicy",
    "parse_instant",
    "parse_java_duration",
    "parse_policies",
    "parse_policy",
]

_INT_RANGE = range(-(2**31), 2**31)
_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII,
)
_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
    r"(?:Z|([+-])(\d\d):?(\d\d)?:?(\d\d)?)(?:\[(?:UTC|GMT|Z)\])?",
    re.ASCII,
)
_FLAGS = re.compile(r"\(\?[a-z]+\)")
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CutoffPolicy:
    """At most one of the two is set; a policy without any cuts nothing off."""

    commits: int | None = None
    timestamp: datetime | None = None

    def is_cut_off(self, commit_time: datetime, number: int) -> bool:
        """Whether the `number`-th commit of a walk (the head is the first) is too old.

        A commit made exactly at the timestamp is live, and so is the commit whose number is the policy's.
        """
        if self.commits is not None:
            return number > self.commits
        return self.timestamp is not None and commit_time < self.timestamp

    def __str__(self) -> str:
        if self.commits is not None:
            return f"{self.commits} commits"
        return "NONE" if self.timestamp is None else f"since {format_time(self.timestamp)}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern as we read it and as nessie-gc does, and its policy."""

    pattern: str
    whole: re.Pattern[str]
    found: re.Pattern[str]
    policy: CutoffPolicy

    @classmethod
    def of(cls, pattern: str, policy: CutoffPolicy) -> _Rule:
        flags = _FLAGS.match(pattern)
        head, rest = (flags[0], pattern[flags.end() :]) if flags else ("", pattern)
        whole, found = compile_java_pattern(pattern), compile_java_pattern(f"{head}^{rest}$")
        return cls(pattern, whole, found, policy)


@dataclass(frozen=True, slots=True)
class CutoffPolicies:
    """A policy for every reference: that of the first pattern that matches its whole name, else the default.

    nessie-gc puts `^` and `$` around a pattern and looks for it in the name, so that of `main|dev` it finds `main` in
    `main-old`. Where its reading leads to another policy, both hold: a commit is live that either keeps.
    """

    default: CutoffPolicy
    by_pattern: Iterable[tuple[str, CutoffPolicy]] = ()
    _compiled: tuple[_Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pairs = tuple(self.by_pattern)
        object.__setattr__(self, "by_pattern", pairs)
        compiled = tuple(_Rule.of(pattern, policy) for pattern, policy in pairs)
        object.__setattr__(self, "_compiled", compiled)

    def policy_for(self, reference_name: str) -> CutoffPolicy:
        """The policy of a branch or tag of this name."""
        for rule in self._compiled:
            if rule.whole.fullmatch(reference_name):
                return rule.policy
        return self.default

    def policies_for(self, reference_name: str) -> tuple[CutoffPolicy, ...]:
        """The policies that hold together: ours and, where it differs, that of nessie-gc's reading."""
        theirs = next(
            (rule.policy for rule in self._compiled if rule.found.search(reference_name)),
            self.default,
        )
        return tuple(dict.fromkeys((self.policy_for(reference_name), theirs)))

    def unmatched(self, reference_names: Iterable[str]) -> list[str]:
        """Patterns that no reference matches, by either reading."""
        names = list(reference_names)
        return [
            rule.pattern
            for rule in self._compiled
            if not any(rule.whole.fullmatch(n) or rule.found.search(n) for n in names)
        ]


def parse_policies(
    default_text: str, pairs: Iterable[tuple[str, str]], reference_time: datetime
) -> CutoffPolicies:
    """Policies from texts. A pattern that is given twice keeps its place and takes the later policy."""
    texts = dict(pairs)
    return CutoffPolicies(
        parse_policy(default_text, reference_time),
        [(pattern, parse_policy(text, reference_time)) for pattern, text in texts.items()],
    )


def parse_policy(text: str, reference_time: datetime) -> CutoffPolicy:
    """Read one policy; durations count back from the reference time."""
    wanted = text.strip().upper()
    if wanted == "NONE":
        return CutoffPolicy()
    if re.fullmatch(r"[-+]?\d+", wanted, re.ASCII) and int(wanted) in _INT_RANGE:
        return CutoffPolicy(commits=int(wanted))
    if (microseconds := _duration_microseconds(wanted)) is not None:
        return CutoffPolicy(timestamp=_moved_back(reference_time, microseconds))
    if _INSTANT.fullmatch(wanted):
        return CutoffPolicy(timestamp=parse_instant(wanted))
    raise ConfigError(
        f"{text!r} is not a cut-off policy. Write NONE, a number of commits (10), a duration without months or years "
        "(P10D, PT10H) or a time with its offset (2011-12-03T10:15:30Z).",
        kind="bad-cutoff",
    )


def parse_instant(text: str) -> datetime:
    """Read a time that has an offset, such as a commit's. Parts of a microsecond are cut.

    Servers write nanoseconds. With both sides of the comparison rounded down, a commit that is older than the cut-off
    by less than a microsecond may stay live, and never the other way round.
    """
    match = _INSTANT.fullmatch(text.strip().upper())
    if match is None:
        raise _bad_time(text)
    *date_and_time, second, fraction, sign, hours, minutes, seconds = match.groups()
    year, month, day, hour, minute = (int(part) for part in date_and_time)
    nanoseconds = int((fraction or "").ljust(9, "0"))
    offset = timedelta(
        hours=int(hours or 0), minutes=int(minutes or 0), seconds=int(seconds or 0)
    ) * (-1 if sign == "-" else 1)
    try:
        local = datetime(year, month, day, hour, minute, int(second or 0), tzinfo=UTC)
        return local + nanoseconds // 1000 * _MICROSECOND - offset
    except (ValueError, OverflowError) as error:
        raise _bad_time(text) from error


def parse_java_duration(text: str) -> timedelta:
    """Read a java.time.Duration such as `PT10S`."""
    microseconds = _duration_microseconds(text.strip().upper())
    if microseconds is None or abs(microseconds) > timedelta.max // _MICROSECOND:
        raise ConfigError(
            f"{text!r} is not a duration. Write one like PT10S or P1D.", kind="bad-duration"
        )
    return microseconds * _MICROSECOND


def _bad_time(text: str) -> ConfigError:
    return ConfigError(
        f"{text!r} is not a time with an offset. Write one like 2011-12-03T10:15:30Z.",
        kind="bad-time",
    )


def _duration_microseconds(text: str) -> int | None:
    """A java.time.Duration, rounded up to microseconds; None when the text is not one."""
    match = _DURATION.fullmatch(text)
    if match is None or match["time"] == "T":
        return None
    amounts = [match[unit] for unit in ("days", "hours", "minutes", "seconds")]
    if all(amount is None for amount in amounts):
        return None
    days, hours, minutes, seconds = (int(amount or 0) for amount in amounts)
    nanoseconds = int((match["fraction"] or "").ljust(9, "0"))
    if (match["seconds"] or "").startswith("-"):
        nanoseconds = -nanoseconds
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanoseconds
    # Up, so that the time it leads back to is rounded down.
    return -((total if match["sign"] == "-" else -total) // 1000)


def _moved_back(time: datetime, microseconds: int) -> datetime:
    """So long before a time, or the end of the calendar: before it there are no commits to cut off."""
    time = time.astimezone(UTC)
    if microseconds > (time - _EARLIEST) // _MICROSECOND:
        return _EARLIEST
    if microseconds < (time - _LATEST) // _MICROSECOND:
        return _LATEST
    return time - microseconds * _MICROSECOND
