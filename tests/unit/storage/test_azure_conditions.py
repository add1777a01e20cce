"""Azure deletes only the version that was looked at, where we can sign such a request."""

from __future__ import annotations

from collections.abc import Mapping

import obstore
import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage import DeleteStatus, ObjectInfo, StorageOptions
from lakesweep.storage import azure as azure_module
from lakesweep.storage.azure import AzureBackend
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.values import DeleteTerms

ROOT = Location.parse("https://account.blob.core.windows.net/lake/r")
KEYED = StorageOptions(azure_account_key="a2V5")
ETAG = '"0x8D"'


class Answering:
    """Connections that give one answer, and know what was asked."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self.asked.append((method, target, headers))
        return Reply(self.status, self.headers, b"")


def answering(monkeypatch: pytest.MonkeyPatch, status: int) -> Answering:
    fake = Answering(status)
    monkeypatch.setattr(azure_module, "_connections", lambda origin, options: fake)
    return fake


@pytest.mark.parametrize(
    "options", [KEYED, StorageOptions(azure_sas_token="?sv=1&sig=s")], ids=["key", "token"]
)
def test_etag_goes_with_the_delete(
    monkeypatch: pytest.MonkeyPatch, options: StorageOptions
) -> None:
    """An account key and a SAS token both carry the condition."""
    fake = answering(monkeypatch, 202)
    (outcome,) = AzureBackend(ROOT, options).delete(["a b"], DeleteTerms(etags={"a b": ETAG}))
    assert outcome.status is DeleteStatus.GONE
    ((method, target, headers),) = fake.asked
    assert method == "DELETE"
    assert target.split("?")[0] == "/lake/r/a%20b"
    assert headers["If-Match"] == ETAG


@pytest.mark.parametrize("is_there", [True, False])
def test_other_version_is_kept_and_an_absent_one_told(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A condition that does not hold says the same of another version and of none."""

    def head(backend: AzureBackend, key: str) -> ObjectInfo:
        if not is_there:
            raise ObjectNotFoundError("no such blob")
        return ObjectInfo(key, 1, None, '"0x9"')

    answering(monkeypatch, 412)
    monkeypatch.setattr(AzureBackend, "head", head)
    (outcome,) = AzureBackend(ROOT, KEYED).delete(["a"], DeleteTerms(etags={"a": ETAG}))
    assert outcome.status is (DeleteStatus.CHANGED if is_there else DeleteStatus.ALREADY_ABSENT)


def test_time_is_looked_at_before_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that go one by one are asked for only while time is left."""
    fake = answering(monkeypatch, 202)
    terms = DeleteTerms(lambda: 0.0, {"a": ETAG, "b": ETAG})
    outcomes = AzureBackend(ROOT, KEYED).delete(["a", "b"], terms)
    assert {o.status for o in outcomes} == {DeleteStatus.NOT_TRIED}
    assert not fake.asked


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "SnapshotsPresent"),
        (409, "BlobImmutableDueToPolicy"),
        (412, "LeaseIdMissing"),
    ],
)
def test_refusal_for_another_reason_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    """The blob is the one that was looked at: it is left over, and not kept as another one."""
    fake = answering(monkeypatch, status)
    fake.headers = {"x-ms-error-code": code}
    monkeypatch.setattr(AzureBackend, "head", lambda backend, key: ObjectInfo(key, 1, None, ETAG))
    (outcome,) = AzureBackend(ROOT, KEYED).delete(["a"], DeleteTerms(etags={"a": ETAG}))
    assert outcome.status is DeleteStatus.FAILED
    assert code in outcome.detail


def test_refusal_without_a_condition_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compared, so the blob is no other one than expected; the store's words are told."""

    def refuse(client: object, paths: object) -> None:
        raise obstore.exceptions.PreconditionError("status code: 412 LeaseIdMissing")

    monkeypatch.setattr(obstore, "delete", refuse)
    (outcome,) = AzureBackend(ROOT, KEYED).delete(["a"])
    assert outcome.status is DeleteStatus.FAILED
    assert "LeaseIdMissing" in outcome.detail
