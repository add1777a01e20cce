"""A user who writes to a Nessie server over REST, the fake or a real one, as one script for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

import httpx

from lakesweep_testing.nessie_contents import Content, Key, namespace, parents_of

__all__ = ["NessieWriter"]


class NessieWriter:
    """The methods of FakeNessie that write, sent as requests. A refusal is an httpx.HTTPStatusError."""

    def __init__(self, uri: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self._http = httpx.Client(base_url=uri, transport=transport, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.close()

    def heads(self) -> dict[str, str]:
        """All references with their hashes."""
        listed = self._send("GET", "trees", params={"max-records": "10000"})
        return {reference["name"]: reference["hash"] for reference in listed["references"]}

    def head(self, name: str = "main") -> str:
        """The hash that a reference points at."""
        return str(self._reference(name)["hash"])

    def contents(self, keys: Sequence[Key], ref: str = "main") -> dict[Key, Content]:
        """Those of the keys that are there, with their contents."""
        body = {"requestedKeys": [_key_json(key) for key in keys]}
        said = self._send("POST", _path(ref, "", "contents"), body)
        return {tuple(c["key"]["elements"]): c["content"] for c in said["contents"]}

    def commit(
        self,
        branch: str,
        puts: Mapping[Key, Content] | None = None,
        deletes: Sequence[Key] = (),
        message: str = "a commit",
    ) -> str:
        """Commit, with missing namespaces put first. A content without an id keeps the id of its key."""
        puts = dict(puts or {})
        parents = list(dict.fromkeys(parent for key in puts for parent in parents_of(key)))
        there = self.contents([*puts, *parents], branch) if puts else {}
        missing = {p: namespace(p) for p in parents if p not in there and p not in puts}
        for key, content in puts.items():
            if "id" not in content and key in there and key not in deletes:
                puts[key] = {**content, "id": there[key]["id"]}
        operations = [{"type": "DELETE", "key": _key_json(key)} for key in deletes] + [
            {"type": "PUT", "key": _key_json(key), "content": content}
            for key, content in {**missing, **puts}.items()
        ]
        body = {"commitMeta": {"message": message}, "operations": operations}
        said = self._send("POST", _path(branch, self.head(branch), "history/commit"), body)
        return str(said["targetBranch"]["hash"])

    def rename(self, branch: str, old: Key, new: Key) -> str:
        """One commit that deletes the old key and puts the same content, id included, under the new one."""
        content = self.contents([old], branch)[old]
        return self.commit(branch, {new: content}, [old])

    def merge(
        self, source: str, target: str = "main", *, drop: Sequence[Key] = (), force: bool = False
    ) -> str:
        """Merge one reference's head into a branch, but for some keys; gives the branch's new hash."""
        body = {
            "fromRefName": source,
            "fromHash": self.head(source),
            "defaultKeyMergeMode": "FORCE" if force else "NORMAL",
            "keyMergeModes": [{"key": _key_json(key), "mergeBehavior": "DROP"} for key in drop],
        }
        self._send("POST", _path(target, self.head(target), "history/merge"), body)
        return self.head(target)

    def create_branch(self, name: str, source: str = "main", hash: str | None = None) -> str:
        """A branch at another reference's head, or at a commit of that reference."""
        return self._create("BRANCH", name, source, hash)

    def create_tag(self, name: str, source: str = "main", hash: str | None = None) -> str:
        """A tag at another reference's head, or at a commit of that reference."""
        return self._create("TAG", name, source, hash)

    def assign(self, name: str, source: str = "main", hash: str | None = None) -> str:
        """Point a reference elsewhere."""
        kind, current = self._reference(name)["type"], self.head(name)
        target = {**self._reference(source), **({"hash": hash} if hash else {})}
        self._send("PUT", _path(name, current), target, params={"type": kind})
        return self.head(name)

    def delete_reference(self, name: str) -> None:
        """Delete a branch or tag."""
        reference = self._reference(name)
        path = _path(name, reference["hash"])
        self._send("DELETE", path, params={"type": reference["type"]})

    def _create(self, kind: str, name: str, source: str, hash: str | None) -> str:
        body = {**self._reference(source), **({"hash": hash} if hash else {})}
        said = self._send("POST", "trees", body, params={"name": name, "type": kind})
        return str(said["reference"]["hash"])

    def _reference(self, name: str) -> dict[str, Any]:
        reference = self._send("GET", _path(name, ""))["reference"]
        return {field: reference[field] for field in ("type", "name", "hash")}

    def _send(
        self,
        method: str,
        path: str,
        body: object | None = None,
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        response = self._http.request(method, path, json=body, params=params)
        if response.is_error:
            response.read()
            raise httpx.HTTPStatusError(
                f"{method} {path}: {response.status_code} {response.text[:500]}",
                request=response.request,
                response=response,
            )
        said: dict[str, Any] = response.json()
        return said


def _path(name: str, hash: str, *below: str) -> str:
    # The @ stands for a reference without a hash too: names with a slash need it.
    return "/".join(("trees", quote(f"{name}@{hash}", safe="@"), *below))


def _key_json(key: Key) -> dict[str, list[str]]:
    return {"elements": list(key)}
