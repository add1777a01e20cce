"""A request that a store denies names the right that it needs, and what gives it."""

from __future__ import annotations

import pytest

from lakesweep.errors import StorageDeniedError
from lakesweep.storage.translate import error_from_reply


@pytest.mark.parametrize(
    ("what", "action", "resource"),
    [
        ("listing s3://lake/ns/data/", "s3:ListBucket", "arn:aws:s3:::lake"),
        ("reading s3://lake/ns/_lakefs/x", "s3:GetObject", "arn:aws:s3:::lake/*"),
        ("looking up s3://lake/ns/x", "s3:GetObject", "arn:aws:s3:::lake/*"),
        ("writing s3://lake/ns/x", "s3:PutObject", "arn:aws:s3:::lake/*"),
        ("deleting 7 objects in s3://lake", "s3:DeleteObject", "arn:aws:s3:::lake/*"),
        (
            "reading the versioning of s3://lake",
            "s3:GetBucketVersioning",
            "arn:aws:s3:::lake",
        ),
    ],
)
def test_a_right_on_s3(what: str, action: str, resource: str) -> None:
    """As a statement to be added to a policy of the user or the role."""
    error = error_from_reply(403, "AccessDenied", "no", what)
    assert isinstance(error, StorageDeniedError)
    statement = f'{{"Effect": "Allow", "Action": ["{action}"], "Resource": "{resource}"}}'
    assert statement in error.message


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("listing gs://lake/ns/", "storage.objects.list on the bucket lake"),
        ("deleting gs://lake/ns/x", "storage.objects.delete on the bucket lake"),
        ("listing https://a.blob.core.windows.net/c/ns/", "'l' among its permissions"),
        ("deleting 3 blobs in https://a.blob.core.windows.net/c", "blobs/delete"),
        ("writing abfss://c@a.dfs.core.windows.net/ns/x", "blobs/write"),
    ],
)
def test_a_right_on_google_and_azure(what: str, named: str) -> None:
    """As the permission, and a role that has it."""
    assert named in error_from_reply(403, "", "no", what).message


def test_wrong_credentials_lack_no_right() -> None:
    """The store does not know who asks."""
    error = error_from_reply(403, "SignatureDoesNotMatch", "no", "listing s3://lake/ns/")
    assert "s3:ListBucket" not in error.message


def test_what_nobody_can_name_is_left_as_it_is() -> None:
    """A request that has no right of its own."""
    error = error_from_reply(403, "AccessDenied", "no", "finding the region of s3://lake")
    assert error.message.endswith("check the credentials and their rights.")
