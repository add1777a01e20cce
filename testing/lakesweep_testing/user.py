"""A user of one repository, in the words of the REST API. Works alike on a real server and on the embedded lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx


@dataclass
class User:
    """Every verb succeeds or raises; `days` back-date commits."""

    api: httpx.Client
    repository: str
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    @classmethod
    def create(
        cls,
        api: httpx.Client,
        repository: str,
        namespace: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> User:
        """A new repository and its user."""
        user = cls(api, repository, clock)
        user._ask("POST", "", json={"name": repository, "storage_namespace": namespace}, root=True)
        return user

    def upload(self, branch: str, path: str, content: str | bytes | None = None) -> str:
        """Upload, and return the physical address."""
        data = path if content is None else content
        answer = self._ask(
            "POST",
            f"/branches/{branch}/objects",
            params={"path": path},
            content=data.encode() if isinstance(data, str) else data,
            headers={"Content-Type": "application/octet-stream"},
        )
        return str(answer.json()["physical_address"])

    def delete(self, branch: str, path: str) -> None:
        self._ask("DELETE", f"/branches/{branch}/objects", params={"path": path})

    def copy(self, branch: str, source: str, target: str) -> str:
        answer = self._ask(
            "POST",
            f"/branches/{branch}/objects/copy",
            params={"dest_path": target},
            json={"src_path": source},
        )
        return str(answer.json()["physical_address"])

    def commit(self, branch: str, *, days: float = 0, message: str = "commit") -> str:
        """Commit as of so many days ago."""
        date = self.clock() - timedelta(days=days)
        body = {"message": message, "date": int(date.timestamp())}
        return str(self._ask("POST", f"/branches/{branch}/commits", json=body).json()["id"])

    def branch(self, branch: str, source: str) -> None:
        self._ask("POST", "/branches", json={"name": branch, "source": source})

    def drop_branch(self, branch: str) -> None:
        self._ask("DELETE", f"/branches/{branch}")

    def tag(self, tag: str, ref: str) -> None:
        self._ask("POST", "/tags", json={"id": tag, "ref": ref})

    def reset(self, branch: str) -> None:
        self._ask("PUT", f"/branches/{branch}", json={"type": "reset"})

    def hard_reset(self, branch: str, ref: str) -> None:
        self._ask("PUT", f"/branches/{branch}/hard_reset", params={"ref": ref})

    def clear_rules(self) -> None:
        self._ask("DELETE", "/settings/gc_rules")

    def merge(self, source: str, target: str) -> None:
        self._ask("POST", f"/refs/{source}/merge/{target}", json={})

    def merge_base(self, source: str, target: str) -> str:
        answer = self._ask("GET", f"/refs/{source}/merge/{target}")
        return str(answer.json()["base_commit_id"])

    def head(self, branch: str) -> str:
        return str(self._ask("GET", f"/branches/{branch}").json()["commit_id"])

    def revert(self, branch: str, ref: str) -> None:
        self._ask("POST", f"/branches/{branch}/revert", json={"ref": ref, "parent_number": 0})

    def cherry_pick(self, branch: str, ref: str) -> None:
        self._ask("POST", f"/branches/{branch}/cherry-pick", json={"ref": ref})

    def set_rules(self, default_days: int, **branch_days: int) -> None:
        branches = [{"branch_id": b, "retention_days": d} for b, d in branch_days.items()]
        rules = {"default_retention_days": default_days, "branches": branches}
        self._ask("PUT", "/settings/gc_rules", json=rules)

    def issue_address(self, branch: str, path: str) -> str:
        answer = self._ask("GET", f"/branches/{branch}/staging/backing", params={"path": path})
        return str(answer.json()["physical_address"])

    def link(self, branch: str, path: str, address: str, size: int, checksum: str = "c") -> None:
        body = {
            "staging": {"physical_address": address},
            "checksum": checksum,
            "size_bytes": size,
        }
        self._ask("PUT", f"/branches/{branch}/staging/backing", params={"path": path}, json=body)

    def status(self, ref: str, path: str) -> int:
        """The HTTP status of reading an object: 200, 404, or 410 when its bytes are gone."""
        answer = self.api.get(
            f"/repositories/{self.repository}/refs/{ref}/objects", params={"path": path}
        )
        answer.read()
        return answer.status_code

    def address(self, ref: str, path: str) -> str:
        answer = self._ask("GET", f"/refs/{ref}/objects/stat", params={"path": path})
        return str(answer.json()["physical_address"])

    def paths(self, ref: str) -> Iterator[str]:
        """Every path that the ref reads."""
        after, more = "", True
        while more:
            page = self._ask(
                "GET", f"/refs/{ref}/objects/ls", params={"after": after, "amount": 1000}
            ).json()
            yield from (entry["path"] for entry in page["results"])
            after, more = page["pagination"]["next_offset"], page["pagination"]["has_more"]

    def branches(self) -> list[str]:
        page = self._ask("GET", "/branches", params={"amount": 1000}).json()
        return [branch["id"] for branch in page["results"]]

    def _ask(self, method: str, path: str, *, root: bool = False, **options: Any) -> httpx.Response:
        route = "/repositories" if root else f"/repositories/{self.repository}{path}"
        answer = self.api.request(method, route, **options)
        if answer.status_code >= 400:
            raise RefusedError(f"{method} {route}: {answer.status_code} {answer.text}")
        return answer


class RefusedError(AssertionError):
    """The server refused what the user asked."""
