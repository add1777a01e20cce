"""Presigned URLs: who has one may read or write one object for a while, with the rights of the credentials that signed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

SignedMethod = Literal["GET", "PUT"]


@dataclass(frozen=True, slots=True)
class SignedUrl:
    """A URL and the time at which the store stops to take it."""

    url: str
    expires_at: datetime


class UrlSigner(Protocol):
    """What signs URLs of one store's objects."""

    @property
    def uploads(self) -> SignedUploads | None:
        """Multipart uploads whose parts others send; None where the store has none."""

    def sign(
        self, method: SignedMethod, key: str, life: timedelta, *, file_name: str = ""
    ) -> SignedUrl:
        """A URL of one object. A browser saves what it gets as `file_name`, where the store can say so."""


class SignedUploads(Protocol):
    """Multipart uploads of a store's own. Nothing is an object before its upload is completed."""

    def create(self, key: str) -> str:
        """Begin an upload; its id."""

    def sign_part(self, key: str, upload_id: str, number: int, life: timedelta) -> SignedUrl:
        """A URL to put one part to."""

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> None:
        """Make the parts (number, etag) the object; `ObjectNotFoundError` when there is no such upload (any more)."""

    def abort(self, key: str, upload_id: str) -> None:
        """Remove the upload and its parts; one that is gone already is no error."""
