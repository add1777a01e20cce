"""The protobuf descriptors that every file of a refs dump carries, so that it can be read without lakeFS's sources."""

from __future__ import annotations

import json

__all__ = ["SCHEMA_DEFINITIONS"]

_TIMESTAMP = ".google.protobuf.Timestamp"


def _field(
    name: str, number: int, kind: str, *, repeated: bool = False, type_name: str = ""
) -> dict[str, object]:
    first, *rest = name.split("_")
    return {
        "name": name,
        "number": number,
        "label": "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL",
        "type": f"TYPE_{kind}",
        **({"typeName": type_name} if type_name else {}),
        "jsonName": first + "".join(word.capitalize() for word in rest),
    }


_METADATA_ENTRY = {
    "name": "MetadataEntry",
    "field": [_field("key", 1, "STRING"), _field("value", 2, "STRING")],
    "options": {"mapEntry": True},
}
_MESSAGES: dict[str, dict[str, object]] = {
    "commit": {
        "name": "CommitData",
        "field": [
            _field("id", 1, "STRING"),
            _field("committer", 2, "STRING"),
            _field("message", 3, "STRING"),
            _field("creation_date", 4, "MESSAGE", type_name=_TIMESTAMP),
            _field("meta_range_id", 5, "STRING"),
            _field(
                "metadata",
                6,
                "MESSAGE",
                repeated=True,
                type_name=".io.treeverse.lakefs.graveler.CommitData.MetadataEntry",
            ),
            _field("parents", 7, "STRING", repeated=True),
            _field("version", 8, "INT32"),
            _field("generation", 9, "INT32"),
        ],
        "nestedType": [_METADATA_ENTRY],
    },
    "branch": {
        "name": "BranchData",
        "field": [
            _field("id", 1, "STRING"),
            _field("commit_id", 2, "STRING"),
            _field("staging_token", 3, "STRING"),
            _field("sealed_tokens", 4, "STRING", repeated=True),
            _field("hidden", 5, "BOOL"),
        ],
    },
    "tag": {
        "name": "TagData",
        "field": [_field("id", 1, "STRING"), _field("commit_id", 2, "STRING")],
    },
}

SCHEMA_DEFINITIONS: dict[str, str] = {
    entity: json.dumps(message, separators=(",", ":")) for entity, message in _MESSAGES.items()
}
