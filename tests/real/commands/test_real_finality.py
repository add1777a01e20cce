"""Whether a delete frees anything, asked of real stores."""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.request
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions, open_store
from lakesweep.storage.finality import Kept, how_final_are_deletes
from lakesweep.storage.s3.client import s3_client
from lakesweep_testing.servers import AzuriteServer, MinIOServer

pytestmark = pytest.mark.real

VERSIONING = b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>%s</Status></VersioningConfiguration>'
SOFT_DELETE = b"""<?xml version="1.0"?><StorageServiceProperties><DeleteRetentionPolicy>
%s</DeleteRetentionPolicy></StorageServiceProperties>"""


def test_a_versioned_bucket_keeps_what_is_deleted(minio: MinIOServer) -> None:
    """Also when its versioning was suspended: earlier versions stay."""
    bucket = "finality"
    minio.make_bucket(bucket)
    options = StorageOptions(
        s3_access_key_id=minio.access_key_id,
        s3_secret_access_key=minio.secret_access_key,
        s3_endpoint=minio.url,
        s3_region="us-east-1",
    )
    store = open_store(Location.parse(f"s3://{bucket}/ns"), options)
    assert how_final_are_deletes(store).kept is Kept.NOT_KEPT
    for status in (b"Enabled", b"Suspended"):
        s3_client(bucket, options).request(
            "PUT", "switching versioning", query={"versioning": ""}, body=VERSIONING % status
        )
        assert how_final_are_deletes(store).kept is Kept.KEPT


def test_soft_delete_of_an_azure_account_is_told(azurite: AzuriteServer) -> None:
    """With its days; without a key or token it can't be asked for."""
    root = Location.parse(f"{azurite.endpoint}/container/ns")
    options = StorageOptions(azure_account_key=azurite.account_key)
    assert how_final_are_deletes(open_store(root, options)).kept is Kept.NOT_KEPT
    _set_soft_delete(azurite, b"<Enabled>true</Enabled><Days>9</Days>")
    try:
        found = how_final_are_deletes(open_store(root, options))
    finally:
        _set_soft_delete(azurite, b"<Enabled>false</Enabled>")
    assert found.kept is Kept.KEPT
    assert "9 days" in found.said
    wrong = StorageOptions(azure_account_key=base64.b64encode(b"wrong").decode())
    assert how_final_are_deletes(open_store(root, wrong)).kept is Kept.UNKNOWN


def _set_soft_delete(azurite: AzuriteServer, policy: bytes) -> None:
    body = SOFT_DELETE % policy
    headers = {
        "x-ms-date": format_datetime(datetime.now(UTC), usegmt=True),
        "x-ms-version": "2021-12-02",
    }
    own = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    resource = f"/{azurite.account}/{azurite.account}/\ncomp:properties\nrestype:service"
    standard = f"\n\n\n{len(body)}\n\napplication/xml\n\n\n\n\n\n\n"
    signed = f"PUT{standard}{own}{resource}"
    digest = hmac.digest(base64.b64decode(azurite.account_key), signed.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {azurite.account}:{base64.b64encode(digest).decode()}"
    headers["Content-Type"] = "application/xml"
    url = f"{azurite.endpoint}/?restype=service&comp=properties"
    request = urllib.request.Request(url, data=body, headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 202
