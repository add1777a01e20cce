"""One name for all spellings of one place, so that a file named by a table is found again in a listing.

A table may call its file `s3a://lake/t/data/a%20b` where the listing says `s3://lake/t/data/a b`. Both sides are folded
before they are compared. Folding may merge two names, which can only keep a file, and must never part two spellings
of one place, which could delete one. So a folded name is for comparing alone: no file is read or deleted by it.

| spelling                                                                        | folded                             |
| ------------------------------------------------------------------------------- | ---------------------------------- |
| `s3` `s3a` `s3n` `://bucket/key`, `s3:/bucket/key`                               | `s3://bucket/key`                  |
| `/path` `file:/path` `file:///path` `file://localhost/path`                      | `file:///path`                     |
| `abfs[s]` `wasb[s]` `://container@account.dfs.…` or `blob.…`, https of the same  | `abfss://container@account.dfs.…/` |
| any other `scheme://authority/path`                                              | the same, tidied                   |

Scheme and authority become lower case; runs of `/`, `/./` and the last `/` go; percent signs are decoded until none is left to decode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from lakesweep.errors import FormatError

__all__ = ["fold", "folders_around", "is_below"]

_LONGEST_NAME = 1 << 16  # characters; S3 and Azure allow a thousand, local files four thousand
_LONGEST_SHOWN = 200
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)", re.DOTALL)
_BUCKET_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
_HADOOP_AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_PASSWORD = re.compile(r"//[^/]*:[^/]*@")
# The same account answers to both: blob is the old protocol, dfs the one of Data Lake Storage.
_AZURE_SERVICE = re.compile(r"([^.]+(?:\.z\d+)?)\.(?:blob|dfs)\.(.+)", re.DOTALL)
_AZURE_DOMAINS = (
    "core.windows.net",
    "core.chinacloudapi.cn",
    "core.usgovcloudapi.net",
    "core.cloudapi.de",
    "storage.azure.net",
    "fabric.microsoft.com",
)


def fold(uri: str) -> str:
    """The one name of the place that `uri` spells.

    Raises:
        FormatError: kind `bad-file-name`, when it can't be told which place is meant.
    """
    scheme, rest = _split_scheme(uri, _decoded(uri))
    authority, path = _split_authority(rest)
    segments = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in segments:
        # With a link or a prefix in the way, ".." is not what it looks like.
        raise _not_understood(uri, "its path holds '..'")
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise _not_understood(uri, "a file on another host can't be compared")
        authority = ""
    elif scheme in _BUCKET_SCHEMES:
        scheme = _BUCKET_SCHEMES[scheme]
        authority, segments = _bucket(uri, authority, segments)
    elif scheme in _HADOOP_AZURE_SCHEMES:
        scheme = "abfss"
        authority = _azure_authority(uri, authority)
    elif scheme in ("http", "https"):
        scheme, authority, segments = _web(authority, segments)
    if not authority and not segments:
        raise _not_understood(uri, "it names no file")
    return "/".join((f"{scheme}://{authority}", *segments))


def is_below(folded_child: str, folded_base: str) -> bool:
    """Whether a folded name is that of `folded_base` or of something below it."""
    return folded_child == folded_base or folded_child.startswith(folded_base + "/")


def folders_around(folded: str) -> Iterator[str]:
    """The folders that a folded name lies in, the innermost first."""
    while folded := folded.rpartition("/")[0]:
        yield folded


def _decoded(uri: str) -> str:
    if len(uri) > _LONGEST_NAME:
        raise _not_understood(uri, f"it has {len(uri)} characters")
    try:
        raw = uri.encode()
    except UnicodeEncodeError as error:
        raise _not_understood(uri, "it holds half of a surrogate pair") from error
    if b"%" not in raw:
        return uri
    while (decoded := unquote_to_bytes(raw)) != raw:
        raw = decoded
    # Bytes that are not text all become one sign: that merges, and merging keeps.
    return raw.decode(errors="replace")


def _split_scheme(uri: str, decoded: str) -> tuple[str, str]:
    """(scheme, what follows its colon); a path without a scheme is a local file."""
    if decoded.startswith("/"):
        # Two slashes here are no authority: Hadoop and Iceberg take such a name for a path.
        return "file", "//" + decoded
    match = _SCHEME.fullmatch(decoded)
    if match is None:
        raise _not_understood(uri, "it is neither an absolute path nor scheme://…")
    return match[1].lower(), match[2]


def _split_authority(rest: str) -> tuple[str, str]:
    if not rest.startswith("//"):
        return "", rest
    authority, _, path = rest[2:].partition("/")
    return authority.lower(), path


def _bucket(uri: str, authority: str, segments: list[str]) -> tuple[str, list[str]]:
    """Java's paths lose a slash (s3:/bucket/key), and old ones carry a secret before the bucket's name."""
    if not authority and segments:
        authority, segments = segments[0].lower(), segments[1:]
    bucket = authority.rpartition("@")[2]
    if not bucket:
        raise _not_understood(uri, "it names no bucket")
    return bucket, segments


def _azure_authority(uri: str, authority: str) -> str:
    container, at, host = authority.rpartition("@")
    if not at or not container or not host:
        raise _not_understood(uri, "it must begin with container@account.dfs.core.windows.net")
    service = _AZURE_SERVICE.fullmatch(host)
    return f"{container}@{service[1]}.dfs.{service[2]}" if service else authority


def _web(authority: str, segments: list[str]) -> tuple[str, str, list[str]]:
    service = _AZURE_SERVICE.fullmatch(authority)
    if service is None or service[2] not in _AZURE_DOMAINS or not segments:
        return "https", authority, segments
    container, *key = segments
    return "abfss", f"{container.lower()}@{service[1]}.dfs.{service[2]}", key


def _not_understood(uri: str, why: str) -> FormatError:
    # A query may hold a signature, and old names a password; neither reaches the message.
    shown = _PASSWORD.sub("//***@", uri.partition("?")[0])[:_LONGEST_SHOWN]
    return FormatError(
        f"file name {shown!r} is not understood: {why}; nothing was deleted. "
        "Find the table that names it and repair or give up that table.",
        kind="bad-file-name",
    )
