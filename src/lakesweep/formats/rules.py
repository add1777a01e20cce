"""Retention rules as lakeFS keeps them: protobuf, although the file is called config.json."""

from __future__ import annotations

from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.proto import Message, bytes_field, encode_varint, int_field

__all__ = ["RULES_KEY", "decode_rules", "encode_rules"]

RULES_KEY = "_lakefs/retention/gc/rules/config.json"


def encode_rules(rules: RetentionRules | None) -> bytes:
    """The file's bytes; none at all stand for "no rules", and so do 0 days without branches."""
    if rules is None:
        return b""
    branches = sorted(rules.branch_retention_days.items())
    return int_field(1, rules.default_retention_days) + b"".join(
        bytes_field(2, bytes_field(1, branch.encode()) + b"\x10" + encode_varint(days))
        for branch, days in branches
    )


def decode_rules(data: bytes) -> RetentionRules | None:
    """The rules, or None when there are none. Raises FormatError."""
    if not data:
        return None
    message = Message(data, "GarbageCollectionRules")
    branches = {BranchId(entry.text(1)): entry.int32(2) for entry in message.map_entries(2)}
    return RetentionRules(message.int32(1), branches)
