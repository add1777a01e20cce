"""Presigned URLs of S3 objects, and multipart uploads whose parts come over such URLs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from urllib.parse import quote

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.multipart import abort_upload, complete_upload, create_upload
from lakesweep.storage.signing import SignedMethod, SignedUrl


class S3Signer:
    """Signs URLs of objects below a root, and holds multipart uploads to them."""

    def __init__(self, client: S3Client, base: str) -> None:
        self._client = client
        self._base = base

    @property
    def uploads(self) -> S3Signer:
        return self

    def sign(
        self, method: SignedMethod, key: str, life: timedelta, *, file_name: str = ""
    ) -> SignedUrl:
        query = {"response-content-disposition": _attachment(file_name)} if file_name else {}
        return self._client.presigned_url(method, self._base + key, life, query)

    def create(self, key: str) -> str:
        return create_upload(self._client, self._base + key, self._what("beginning", key))

    def sign_part(self, key: str, upload_id: str, number: int, life: timedelta) -> SignedUrl:
        query = {"partNumber": str(number), "uploadId": upload_id}
        return self._client.presigned_url("PUT", self._base + key, life, query)

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> None:
        what = self._what("completing", key)
        complete_upload(self._client, self._base + key, upload_id, parts, what)

    def abort(self, key: str, upload_id: str) -> None:
        try:
            abort_upload(self._client, self._base + key, upload_id, self._what("aborting", key))
        except ObjectNotFoundError:
            return  # It was completed or aborted before.

    def _what(self, doing: str, key: str) -> str:
        return f"{doing} an upload to s3://{self._client.bucket}/{self._base}{key}"


def _attachment(file_name: str) -> str:
    """How a browser is told to save the object under a name of any characters (RFC 6266)."""
    return f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"
