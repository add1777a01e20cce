"""What an S3 bucket says about deleted objects: its versioning, and how long its lifecycle keeps old versions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import StorageDeniedError
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep.storage.finality import Finality, Kept, how_final_are_deletes


def _asked(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> Finality:
    """A bucket with these answers; what is not among them is denied."""

    def request(method: str, what: str, *, query: dict[str, str]) -> SimpleNamespace:
        [name] = query
        if name not in answers:
            raise StorageDeniedError(f"{what} is denied")
        return SimpleNamespace(content=answers[name].encode())

    client = SimpleNamespace(request=request)
    monkeypatch.setattr("lakesweep.storage.s3.client.s3_client", lambda bucket, options: client)
    store = SimpleNamespace(root=Location.parse("s3://bucket/lake/ns"), options=StorageOptions())
    return how_final_are_deletes(cast("ObjectStore", store))


def _versioning(status: str) -> str:
    return f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"


def _lifecycle(*rules: str) -> str:
    each = "".join(f"<Rule>{rule}</Rule>" for rule in rules)
    return f"<LifecycleConfiguration>{each}</LifecycleConfiguration>"


_TO_GLACIER = (
    "<NoncurrentVersionTransition><NoncurrentDays>30</NoncurrentDays><StorageClass>GLACIER</StorageClass>"
    "</NoncurrentVersionTransition>"
)


def _rule(days: int, prefix: str = "", status: str = "Enabled", more: str = "") -> str:
    return (
        f"<Status>{status}</Status><Filter><Prefix>{prefix}</Prefix>{more}</Filter>"
        f"<NoncurrentVersionExpiration><NoncurrentDays>{days}</NoncurrentDays></NoncurrentVersionExpiration>"
    )


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([_rule(30)], 30),
        ([_rule(30, "lake/"), _rule(7, "lake/ns/")], 7),
        ([_rule(7, "other/")], None),
        ([_rule(7, "lake/ns/data/only/")], None),
        ([_rule(7, status="Disabled")], None),
        ([_rule(7, more="<Tag><Key>k</Key><Value>v</Value></Tag>")], None),
        ([_rule(7, more="<NewerNoncurrentVersions>3</NewerNoncurrentVersions>")], None),
        ([f"<Status>Enabled</Status><Filter/>{_TO_GLACIER}"], None),
        ([_rule(90) + _TO_GLACIER], 90),
        (
            ["<Status>Enabled</Status><Prefix></Prefix><Expiration><Days>1</Days></Expiration>"],
            None,
        ),
    ],
)
def test_old_versions_are_kept_as_long_as_the_lifecycle_says(
    monkeypatch: pytest.MonkeyPatch, rules: list[str], days: int | None
) -> None:
    """Only a rule for every object of the namespace tells."""
    answers = {"versioning": _versioning("Enabled"), "lifecycle": _lifecycle(*rules)}
    found = _asked(monkeypatch, answers)
    assert (found.kept, found.days) == (Kept.KEPT, days)


def test_a_versioned_bucket_whose_lifecycle_is_denied_is_still_versioned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How long is then not known."""
    found = _asked(monkeypatch, {"versioning": _versioning("Enabled")})
    assert (found.kept, found.days) == (Kept.KEPT, None)


def test_a_bucket_that_does_not_tell_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may keep everything."""
    assert _asked(monkeypatch, {}).kept is Kept.UNKNOWN


def test_a_bucket_without_versions_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty answer is the answer of a bucket that never had versions."""
    assert _asked(monkeypatch, {"versioning": "<VersioningConfiguration/>"}).kept is Kept.NOT_KEPT


def test_a_bucket_whose_versioning_is_suspended_keeps_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Objects written before that stay as old versions when they are deleted."""
    assert _asked(monkeypatch, {"versioning": _versioning("Suspended")}).kept is Kept.KEPT
