"""The fake Nessie's REST v2: requests in, status and JSON out. Reads as the collector asks them, writes as clients do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from lakesweep.domain.durations import format_time
from lakesweep_testing.nessie_contents import Content, Key
from lakesweep_testing.nessie_state import (
    NO_ANCESTOR,
    FakeCommit,
    FakeReference,
    NessieState,
    Refusal,
)

__all__ = ["answer"]

Json = dict[str, Any]
Item = TypeVar("Item")

_REF = re.compile(r"(?P<name>[^@]*)(?:@(?P<hash>[0-9a-f]*))?")


def answer(
    state: NessieState,
    page_cap: int,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Json,
) -> Json:
    """The JSON of a good answer; a Refusal otherwise. `path` is below /api/v2 and still quoted."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    with state.lock:
        match (method, *parts):
            case ("GET", "config"):
                return _config(state)
            case ("GET", "trees"):
                return _references(state, page_cap, query)
            case ("POST", "trees"):
                return _create(state, query, body)
            case ("GET", "trees", ref):
                return {"reference": _reference_json(_resolve(state, ref))}
            case ("PUT", "trees", ref):
                _check_expected(state, ref)
                target = state.assign(_name(state, ref), body["hash"])
                return {"reference": _reference_json(target)}
            case ("DELETE", "trees", ref):
                _check_expected(state, ref)
                return {"reference": _reference_json(state.delete(_name(state, ref)))}
            case ("GET", "trees", ref, "history"):
                return _history(state, page_cap, _resolve(state, ref), query)
            case ("GET", "trees", ref, "entries"):
                return _entries(state, page_cap, _resolve(state, ref), query)
            case ("GET", "trees", ref, "contents", key):
                return _content(state, _resolve(state, ref), key)
            case ("POST", "trees", ref, "contents"):
                return _contents(state, _resolve(state, ref), body)
            case ("POST", "trees", ref, "history", "commit"):
                return _commit(state, ref, body)
            case ("POST", "trees", ref, "history", "merge"):
                return _merge(state, ref, body)
    raise Refusal(404, "UNKNOWN", f"The fake has no {method} {path}")


def _config(state: NessieState) -> Json:
    return {
        "defaultBranch": state.default_branch,
        "minSupportedApiVersion": 1,
        "maxSupportedApiVersion": 2,
        "actualApiVersion": 2,
        "specVersion": "2.2.0",
        "noAncestorHash": NO_ANCESTOR,
    }


def _references(state: NessieState, page_cap: int, query: Mapping[str, str]) -> Json:
    found = [state.references[name] for name in sorted(state.references)]
    page, paging = _page(found, page_cap, query)
    return {**paging, "references": [_reference_json(reference) for reference in page]}


def _history(
    state: NessieState, page_cap: int, reference: FakeReference, query: Mapping[str, str]
) -> Json:
    # As in the real server, the token of a log is the hash at which it goes on.
    start = query.get("page-token") or reference.hash
    asked = int(query.get("max-records", page_cap))
    wanted = min(asked, page_cap) if asked > 0 else page_cap
    page: list[FakeCommit] = []
    token = None
    for commit in state.log(start):
        if len(page) == wanted:
            token = commit.hash
            break
        page.append(commit)
    with_operations = query.get("fetch") == "ALL"
    entries = [_log_entry(commit, with_operations) for commit in page]
    return {"hasMore": token is not None, "token": token, "logEntries": entries}


def _log_entry(commit: FakeCommit, with_operations: bool) -> Json:
    time = format_time(commit.time)
    entry: Json = {
        "commitMeta": {
            "hash": commit.hash,
            "committer": "",
            "authors": [""],
            "message": commit.message,
            "commitTime": time,
            "authorTime": time,
            "parentCommitHashes": list(commit.parents),
        },
        "parentCommitHash": commit.parents[0],
        "operations": None,
    }
    if with_operations:
        changes = {key: {"type": "DELETE", "key": _key_json(key)} for key in commit.deletes} | {
            key: {"type": "PUT", "key": _key_json(key), "content": content}
            for key, content in commit.puts.items()
        }
        entry["operations"] = [changes[key] for key in sorted(changes)]
    return entry


def _entries(
    state: NessieState, page_cap: int, reference: FakeReference, query: Mapping[str, str]
) -> Json:
    contents = sorted(state.state_at(reference.hash).items())
    page, paging = _page(contents, page_cap, query)
    entries = []
    for key, content in page:
        entry = {"type": content["type"], "name": _key_json(key), "contentId": content["id"]}
        if query.get("content") == "true":
            entry["content"] = content
        entries.append(entry)
    return {**paging, "effectiveReference": _reference_json(reference), "entries": entries}


def _page(
    items: Sequence[Item], page_cap: int, query: Mapping[str, str]
) -> tuple[Sequence[Item], Json]:
    start = int(query.get("page-token", "0"))
    end = start + min(int(query.get("max-records", page_cap)), page_cap)
    has_more = end < len(items)
    return items[start:end], {"hasMore": has_more, "token": str(end) if has_more else None}


def _content(state: NessieState, reference: FakeReference, key: str) -> Json:
    content = state.state_at(reference.hash).get(tuple(key.split(".")))
    if content is None:
        raise Refusal(404, "CONTENT_NOT_FOUND", f"Could not find content for key '{key}'")
    return {"content": content, "effectiveReference": _reference_json(reference)}


def _contents(state: NessieState, reference: FakeReference, body: Json) -> Json:
    contents = state.state_at(reference.hash)
    keys = [_key(asked) for asked in body["requestedKeys"]]
    found = [{"key": _key_json(k), "content": contents[k]} for k in keys if k in contents]
    return {"contents": found, "effectiveReference": _reference_json(reference)}


def _create(state: NessieState, query: Mapping[str, str], body: Json) -> Json:
    made = state.create(query["type"], query["name"], body["hash"])
    return {"reference": _reference_json(made)}


def _commit(state: NessieState, ref: str, body: Json) -> Json:
    branch = _name(state, ref)
    _check_no_conflict(state, ref, body["operations"])
    puts: dict[Key, Content] = {}
    deletes: list[Key] = []
    for operation in body["operations"]:
        key = _key(operation["key"])
        if operation["type"] == "DELETE":
            deletes.append(key)
        elif operation["type"] == "PUT":
            puts[key] = operation["content"]
    if not puts and not deletes:
        raise Refusal(400, "BAD_REQUEST", "operations: size must be between 1 and 2147483647")
    _check_ids(state.state_at(state.reference(branch).hash), puts, deletes)
    made = state.commit(branch, puts, deletes, message=body["commitMeta"].get("message", ""))
    added = [
        {"key": _key_json(key), "contentId": made.puts[key]["id"]}
        for key, content in puts.items()
        if not content.get("id")
    ]
    target = _reference_json(state.reference(branch))
    return {"targetBranch": target, "addedContents": added}


def _check_ids(
    existing: Mapping[Key, Content], puts: Mapping[Key, Content], deletes: Sequence[Key]
) -> None:
    """New contents get their id from the server; only what is updated, or renamed in the same commit, has one."""
    renamed = {existing[key]["id"] for key in deletes if key in existing}
    for key, content in puts.items():
        name, is_update = ".".join(key), key in existing and key not in deletes
        if is_update and not content.get("id"):
            message = f"New value to update existing key '{name}' has no content ID"
            raise Refusal(400, "BAD_REQUEST", message)
        if not is_update and content.get("id") and content["id"] not in renamed:
            message = f"New value for key '{name}' must not have a content ID"
            raise Refusal(400, "BAD_REQUEST", message)


def _merge(state: NessieState, ref: str, body: Json) -> Json:
    branch = _name(state, ref)
    modes = {_key(m["key"]): m["mergeBehavior"] for m in body.get("keyMergeModes", [])}
    made = state.merge(body["fromHash"], branch, modes, body.get("defaultKeyMergeMode", "NORMAL"))
    return {
        "wasApplied": made is not None,
        "wasSuccessful": True,
        "resultantTargetHash": state.reference(branch).hash,
        "targetBranch": branch,
    }


def _name(state: NessieState, ref: str) -> str:
    name = ref.partition("@")[0]
    return state.default_branch if name == "-" else name


def _resolve(state: NessieState, ref: str) -> FakeReference:
    """`name`, `name@hash`, `@hash` and `-`. As in a real server, the hash need not lie on the named reference."""
    match = _REF.fullmatch(ref)
    if match is None:
        raise Refusal(400, "BAD_REQUEST", f"'{ref}' is not a reference")
    hash = match["hash"]
    if not match["name"]:
        state.state_at(hash or "")
        return FakeReference("DETACHED", "DETACHED", hash or "")
    reference = state.reference(_name(state, ref))
    if not hash:
        return reference
    state.state_at(hash)
    return FakeReference(reference.kind, reference.name, hash)


def _check_expected(state: NessieState, ref: str) -> None:
    hash = ref.partition("@")[2]
    if hash and hash != state.reference(_name(state, ref)).hash:
        raise Refusal(409, "REFERENCE_CONFLICT", f"'{ref}' is not at the expected hash")


def _check_no_conflict(state: NessieState, ref: str, operations: Sequence[Json]) -> None:
    """A commit may be made on an older hash as long as its keys did not change since."""
    expected = ref.partition("@")[2]
    since: set[Key] = set()
    for commit in state.log(state.reference(_name(state, ref)).hash):
        if commit.hash == expected or not expected:
            break
        since |= {*commit.puts, *commit.deletes}
    conflicts = since & {_key(operation["key"]) for operation in operations}
    if conflicts:
        raise Refusal(409, "REFERENCE_CONFLICT", f"Values of keys {sorted(conflicts)} changed")


def _reference_json(reference: FakeReference) -> Json:
    if reference.kind == "DETACHED":
        return {"type": reference.kind, "hash": reference.hash}
    return {"type": reference.kind, "name": reference.name, "hash": reference.hash}


def _key(json_key: Json) -> Key:
    return tuple(json_key["elements"])


def _key_json(key: Key) -> Json:
    return {"elements": list(key)}
