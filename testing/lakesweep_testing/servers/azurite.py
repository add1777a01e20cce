"""Azurite: Microsoft's own emulator of Azure Blob Storage."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import shutil
import urllib.parse
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from lakesweep_testing.real_parts import AZURITE, PartMissingError
from lakesweep_testing.servers.process import ServerProcess

__all__ = ["AzuriteServer"]

_API_VERSION = "2021-12-02"


class AzuriteServer(ServerProcess):
    """One storage account, in memory, with the emulator's published name and key."""

    name = "azurite"
    account = "devstoreaccount1"
    # Published by Microsoft for every emulator; it opens nothing else.
    account_key = (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    )

    def command(self) -> Sequence[str | Path]:
        node = shutil.which("node")
        if node is None:
            raise PartMissingError("Azurite runs on Node.js, and there is no `node` on the PATH.")
        return [
            *(node, AZURITE.file()),
            *("--blobHost", "127.0.0.1", "--blobPort", str(self.port)),
            *("--inMemoryPersistence", "--silent"),
            *("--skipApiVersionCheck", "--disableTelemetry"),
        ]

    def is_ready(self) -> bool:
        # Without a signature it answers 400 or 403 as soon as it serves at all.
        return any(self.answers(f"{self.endpoint}?comp=list", status) for status in (400, 403))

    @property
    def endpoint(self) -> str:
        """The account's blob endpoint, as a namespace URI begins with it."""
        return f"{self.url}/{self.account}"

    def make_container(self, container: str) -> str:
        """Create a container (3 letters or more) and return its URI."""
        self._put(f"/{container}", "restype=container", b"", {})
        return f"{self.endpoint}/{container}"

    def put_blob(self, container: str, key: str, data: bytes) -> None:
        """Write a blob of any name, those that our client can't carry too."""
        path = f"/{container}/{urllib.parse.quote(key)}"
        self._put(path, "", data, {"x-ms-blob-type": "BlockBlob"})

    def _put(self, path: str, query: str, data: bytes, own: Mapping[str, str]) -> None:
        date = format_datetime(datetime.now(UTC), usegmt=True)
        headers = {"x-ms-date": date, "x-ms-version": _API_VERSION, **own}
        canonical_headers = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        # On an emulator the account stands in the path too, so it comes twice.
        resource = f"/{self.account}/{self.account}{path}"
        if query:
            resource += "\n" + query.replace("=", ":")
        # PUT, eleven standard headers that are empty but for the length (which is left out when zero), then ours.
        length = str(len(data)) if data else ""
        to_sign = f"PUT\n\n\n{length}" + "\n" * 9 + canonical_headers + resource
        key = base64.b64decode(self.account_key)
        digest = hmac.digest(key, to_sign.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        # Not urllib, which would make another path of an odd one.
        headers |= {"Authorization": f"SharedKey {self.account}:{signature}"}
        target = f"/{self.account}{path}?{query}"
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request("PUT", target, data, headers)
            reply = connection.getresponse()
            content = reply.read()
        if reply.status != http.client.CREATED:
            raise OSError(f"Azurite answered {reply.status}: {content[:200]!r}")
