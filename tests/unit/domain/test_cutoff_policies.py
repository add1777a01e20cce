"""Cut-off policies: what a text means, where the boundary falls, and which reference gets which policy."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.cutoff_policies import (
    CutoffPolicies,
    CutoffPolicy,
    parse_instant,
    parse_java_duration,
    parse_policies,
    parse_policy,
)
from lakesweep.errors import ConfigError

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["NONE", "none", " None "])
def test_none_cuts_nothing_off(text):
    """NONE is a policy that can be asked for, in any case."""
    policy = parse_policy(text, NOW)
    assert policy == CutoffPolicy()
    assert not policy.is_cut_off(datetime.min.replace(tzinfo=UTC), 10**9)


@pytest.mark.parametrize(
    ("text", "commits"),
    [("10", 10), ("+5", 5), ("-5", -5), ("0", 0), ("2147483647", 2**31 - 1)],
)
def test_a_java_int_is_a_number_of_commits(text, commits):
    """Signs are allowed, as Java's Integer.parseInt does."""
    assert parse_policy(text, NOW) == CutoffPolicy(commits=commits)


def test_the_nth_commit_is_the_last_live_one():
    """A number of commits cuts off the first commit whose number is greater."""
    policy = parse_policy("3", NOW)
    assert [policy.is_cut_off(NOW, number) for number in (1, 3, 4)] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("P10D", timedelta(days=10)),
        ("pt10h", timedelta(hours=10)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("PT1,5S", timedelta(seconds=1.5)),
        ("PT5.S", timedelta(seconds=5)),
        ("-PT10H", timedelta(hours=-10)),
        ("PT-10H+30M", timedelta(hours=-9.5)),
        ("-P-1D", timedelta(days=1)),
        ("PT-0.5S", timedelta(seconds=-0.5)),
        ("+PT0S", timedelta()),
        ("PT0.0000015S", timedelta(microseconds=2)),
    ],
)
def test_a_java_duration_counts_back_from_the_reference_time(text, back):
    """Fractions, signs of the whole and of its parts; what is finer than a microsecond keeps more."""
    assert parse_policy(text, NOW) == CutoffPolicy(timestamp=NOW - back)


def test_a_duration_longer_than_the_calendar_cuts_nothing_off():
    """The earliest and the latest time that there is stand in, and no error."""
    assert parse_policy("P99999999D", NOW).timestamp == datetime.min.replace(tzinfo=UTC)
    assert parse_policy("P-99999999D", NOW).timestamp == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2011-12-03T10:15:30Z", datetime(2011, 12, 3, 10, 15, 30, tzinfo=UTC)),
        ("2011-12-03t10:15z", datetime(2011, 12, 3, 10, 15, tzinfo=UTC)),
        ("2011-12-03T10:15:30+01:00", datetime(2011, 12, 3, 9, 15, 30, tzinfo=UTC)),
        ("2011-12-03T10:15:30.25-0130", datetime(2011, 12, 3, 11, 45, 30, 250_000, tzinfo=UTC)),
        ("2011-12-03T10:15:30Z[UTC]", datetime(2011, 12, 3, 10, 15, 30, tzinfo=UTC)),
        (
            "2011-12-03T10:15:30.123456789Z",
            datetime(2011, 12, 3, 10, 15, 30, 123_456, tzinfo=UTC),
        ),
    ],
)
def test_a_time_with_an_offset_is_a_timestamp(text, time):
    """The seconds may be left out; the offset may not."""
    assert parse_policy(text, NOW) == CutoffPolicy(timestamp=time)


def test_a_commit_at_the_timestamp_is_live():
    """The cut-off is exclusive: only what is older goes."""
    policy = CutoffPolicy(timestamp=NOW)
    assert not policy.is_cut_off(NOW, 1000)
    assert policy.is_cut_off(NOW - timedelta(microseconds=1), 1)


def test_a_commit_of_the_same_microsecond_stays_live():
    """Servers write nanoseconds; both sides are rounded down, so doubt keeps."""
    policy = parse_policy("2026-01-01T00:00:00.000000900Z", NOW)
    assert not policy.is_cut_off(parse_instant("2026-01-01T00:00:00.000000100Z"), 2)


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "P1W", "P1M", "P1Y", "10 commits", "1.5", "2147483648", "٣"),
        *("2011-12-03", "2011-12-03T10:15:30", "2011-13-03T10:15:30Z", "2011-12-03T24:00:00Z"),
        *("2011-12-03T10:15:30+01:00[Europe/Paris]", "0001-01-01T00:00:00+01:00", "PT1H30", "DAY"),
    ],
)
def test_other_texts_are_refused(text):
    """Months, weeks, dates without a time, times without an offset: a wrong guess could delete."""
    with pytest.raises(ConfigError):
        parse_policy(text, NOW)


def test_the_first_pattern_that_matches_the_whole_name_wins():
    """An alternation does not leak to longer names, as it does in the original."""
    policies = parse_policies("NONE", [("main|dev", "3"), ("main.*", "5"), (".*", "7")], NOW)
    names = ("main", "dev", "main-old", "feature/x")
    assert [policies.policy_for(name).commits for name in names] == [3, 3, 5, 7]


def test_without_a_match_the_default_counts():
    """Tags are matched by name like branches."""
    policies = CutoffPolicies(CutoffPolicy(commits=1), [("release-[0-9]+", CutoffPolicy())])
    assert policies.policy_for("release-12") == CutoffPolicy()
    assert policies.policy_for("release-12x") == CutoffPolicy(commits=1)


def test_a_pattern_given_twice_takes_the_later_policy():
    """As in the map that the original keeps them in."""
    policies = parse_policies("NONE", [("a", "1"), ("a.*", "2"), ("a", "3")], NOW)
    assert policies.policy_for("a").commits == 3


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"\Qa.b\E-\d+", "a.b-12", "axb-12"),
        (r"x\Q(", "x(", "x"),
        (r"^main$", "main", "mainx"),
        (r"(?<n>ab)\k<n>", "abab", "abac"),
        (r"(?i)MAIN\z", "main", "mai"),
        (r"a\\Qb", "a\\Qb", "ab"),
        (r"\w+", "abc", "é"),
        (r"a++b", "aab", "aa"),
    ],
)
def test_java_patterns_mean_the_same_here(pattern, matching, other):
    r"""Quoting, named groups, possessive repeats; `\w` is ASCII."""
    policies = CutoffPolicies(CutoffPolicy(), [(pattern, CutoffPolicy(commits=1))])
    assert policies.policy_for(matching).commits == 1
    assert policies.policy_for(other).commits is None


@pytest.mark.parametrize(
    "pattern", ["(", r"\p{Alpha}+", "[a-z&&[^b]]", "[[a]b]", "(?P<x>a)", r"\h", "*", "(?<=a*)b"]
)
def test_patterns_that_can_not_be_said_in_python_are_refused(pattern):
    """Not understood is an error, and never a pattern that matches something else."""
    with pytest.raises(ConfigError, match="regular expression"):
        CutoffPolicies(CutoffPolicy(), [(pattern, CutoffPolicy())])


def test_policies_say_what_they_are_and_travel():
    """For logs, and for other processes."""
    texts = [str(parse_policy(text, NOW)) for text in ("NONE", "3", "P1D")]
    assert texts == ["NONE", "3 commits", "since 2026-03-09T12:00:00Z"]
    policies = parse_policies("NONE", [("a", "1")], NOW)
    assert pickle.loads(pickle.dumps(policies)) == policies


def test_durations_of_settings_have_a_length():
    """The same text form serves token life times."""
    assert parse_java_duration("PT1M30S") == timedelta(seconds=90)
    with pytest.raises(ConfigError):
        parse_java_duration("90")


@pytest.mark.parametrize(
    ("pattern", "name", "is_read_twice"),
    [
        ("main|dev", "main-old", True),  # nessie-gc finds ^main
        ("main|dev", "old-dev", True),  # and dev$
        ("main|dev", "main", False),
        ("(main|dev)", "main-old", False),
        ("(?i)main|dev", "MAIN-old", True),
        ("ma", "main", False),
    ],
)
def test_where_nessie_gc_reads_a_pattern_otherwise_both_policies_hold(pattern, name, is_read_twice):
    """It finds alternatives in parts of names; the longer retention wins, commit by commit."""
    policies = parse_policies("NONE", [(pattern, "3")], NOW)
    ours, *theirs = policies.policies_for(name)
    assert ours == policies.policy_for(name)
    assert theirs == ([CutoffPolicy(commits=3)] if is_read_twice else [])


def test_a_pattern_is_unmatched_when_neither_reading_finds_it():
    """Then it is named."""
    policies = parse_policies("NONE", [("main|dev", "3"), ("relese-.*", "NONE")], NOW)
    assert policies.unmatched(["main-old", "release-1"]) == ["relese-.*"]
    assert policies.unmatched([]) == ["main|dev", "relese-.*"]
