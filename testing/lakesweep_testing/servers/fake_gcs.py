"""fake-gcs-server: an emulator of Google Cloud Storage. It takes no writes from our client, so tests seed it."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from lakesweep_testing.real_parts import FAKE_GCS
from lakesweep_testing.servers.process import ServerProcess

__all__ = ["FakeGcsServer"]


class FakeGcsServer(ServerProcess):
    """Buckets in memory; no authentication."""

    name = "fake-gcs"

    def command(self) -> Sequence[str | Path]:
        return [
            *(FAKE_GCS.file(), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port)),
            *("-backend", "memory", "-external-url", self.url),
            *("-public-host", f"127.0.0.1:{self.port}"),
        ]

    def is_ready(self) -> bool:
        return self.answers(f"{self.url}/storage/v1/b?project=test")

    @property
    def service_account_key(self) -> str:
        """The key document that points an ordinary client here and turns off its tokens."""
        return json.dumps(
            {
                "gcs_base_url": self.url,
                "disable_oauth": True,
                "client_email": "",
                "private_key": "",
                "private_key_id": "",
            }
        )

    def make_bucket(self, bucket: str) -> str:
        """Create a bucket and return its URI."""
        body = json.dumps({"name": bucket}).encode()
        self._post("/storage/v1/b?project=test", body, "application/json")
        return f"gs://{bucket}"

    def put_object(self, bucket: str, key: str, data: bytes) -> None:
        """Seed one object."""
        query = urllib.parse.urlencode({"uploadType": "media", "name": key})
        path = f"/upload/storage/v1/b/{bucket}/o?{query}"
        self._post(path, data, "application/octet-stream")

    def _post(self, path: str, body: bytes, content_type: str) -> None:
        headers = {"Content-Type": content_type}
        request = urllib.request.Request(self.url + path, body, headers, method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30):
            pass
