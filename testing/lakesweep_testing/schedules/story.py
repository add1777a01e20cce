"""A schedule told in plain words."""

from __future__ import annotations

from lakesweep_testing.schedules.exploring import Found
from lakesweep_testing.schedules.steps import CLOCK, MODEL, OBJECTS, Access

_RECORDS = {
    b"branches/": ("branch", "all branches"),
    b"commits/": ("a commit record", "all commit records"),
    b"copies/": ("a tracked copy", "the tracked copies"),
    b"pending/": ("an upload under way", "the uploads under way"),
    b"tags/": ("tag", "all tags"),
    b"head-moves/": ("a head that was left", "the heads that were left"),
}
_NAMED = (b"branches/", b"tags/")
_VERBS = {
    "get": "reads",
    "page": "reads",
    "set": "writes",
    "set_many": "writes",
    "set_if": "writes, if nobody was first,",
    "change_all": "writes, if nobody was first,",
    "delete": "removes",
    "delete_if": "removes, if unchanged,",
    "delete_partition": "removes",
}


def tell(found: Found) -> str:
    """The story of a schedule that did harm: numbered steps, the harm, and how to see it again."""
    width = max(len(step.choice.actor) for step in found.taken)
    lines = [f"{found.program}: {found.harm.kind}"]
    for number, step in enumerate(found.taken, start=1):
        dies = ", and dies" if step.choice.dies else ""
        words = describe(step.access, found.labels)
        lines.append(f"{number:3}. {step.choice.actor:<{width}}  {words}{dies}")
    lines.append(f"  => {found.harm.text}")
    lines.append(f"  replay: --program {found.program} --replay '{found.text}'")
    return "\n".join(lines) + "\n"


def describe(access: Access, labels: dict[str, str]) -> str:
    """One step in words."""
    if access.place == CLOCK:
        return "lets time pass"
    if access.place == MODEL:
        every = "every record of " if access.is_range else ""
        return f"{_VERBS[access.verb]} {every}{bytes(access.key).decode()}"  # type: ignore[arg-type]
    if access.place == OBJECTS:
        return _object(access, labels)
    verb = _VERBS[access.verb]
    key = bytes(access.key)  # type: ignore[arg-type]
    if ":" in access.place:
        return _staged(access.verb, verb, access.place, key)
    if access.place == "cleanup-tokens":
        return f"{verb} a staging token that is let go of"
    return f"{verb} {_record(key, access.is_range)}"


def _record(key: bytes, is_range: bool) -> str:
    for prefix, (one, many) in _RECORDS.items():
        if key.startswith(prefix):
            name = key.removeprefix(prefix).decode(errors="replace")
            if is_range and not name:
                return many
            return f"{one} {name}" if prefix in _NAMED else one
    return f"record {key.decode(errors='replace')}"


def _staged(kind: str, verb: str, token: str, key: bytes) -> str:
    # A token is called repository-branch:id.
    branch = token.split(":")[0].partition("-")[2]
    if kind == "page":
        return f"reads a page of what is staged on {branch}"
    if kind == "delete_partition":
        return f"removes a staging area of {branch}"
    if kind in ("set", "set_if", "set_many", "change_all"):
        return f"stages at {key.decode()!r} on {branch}"
    return f"{verb} {key.decode()!r} in a staging area of {branch}"


def _object(access: Access, labels: dict[str, str]) -> str:
    key = str(access.key)
    if key.startswith(f"{MODEL}/"):
        return f"{access.verb}s {key.removeprefix(f'{MODEL}/') or 'the objects'}"
    verb = {"stat": "looks for", "list": "lists", "delete": "deletes"}.get(access.verb)
    verb = verb or f"{access.verb}s"
    if key.startswith("clock/"):
        return "asks the store for its time" if access.verb == "write" else "tidies up after that"
    if key.startswith("lease/"):
        number = key.removeprefix("lease/").removesuffix(".json").lstrip("0")
        return f"{verb} {f'lease {number}' if number else 'the leases'}"
    if access.is_range:
        return f"{verb} {'all objects' if key == 'data/' else 'its lists'}"
    if key.startswith("data/"):
        return f"{verb} the object “{labels.get(key, '?')}”"
    name = key.rsplit("/", 1)[-1]
    if key.endswith(".intent.json"):
        return f"{verb} in the ledger what it is about to delete"
    if "/deleted/" in key:
        return f"{verb} in the ledger what it has deleted"
    if len(name) == 64:
        return f"{verb} a file of a commit"
    return f"{verb} {'its list' if '/gc/' in key else key}"
