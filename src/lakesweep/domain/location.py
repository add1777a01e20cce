"""One type for places in object stores, so that whether two spellings mean one place is answered once.

| spelling                                                              | kind   |
| --------------------------------------------------------------------- | ------ |
| `s3://` `s3a://` `s3n://` bucket/key                                   | s3     |
| `gs://` bucket/key                                                     | gs     |
| `abfs[s]://` `wasb[s]://` container@account.dfs.core.windows.net/key   | azure  |
| `https://` account.blob.core.windows.net/container/key                 | azure  |
| `http://` 127.0.0.1:10000/account/container/key (Azurite)              | azure  |
| `file:/path` `file:///path` `local:///path`, `local://name` with a root | local  |
| `mem://` name/key                                                      | mem    |

Keys are taken verbatim: nothing is percent-decoded, because lakeFS, Hadoop and Iceberg write them undecoded.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import ConfigError

__all__ = ["Location", "StoreKind"]

StoreKind = Literal["s3", "gs", "azure", "local", "mem"]

_BUCKET_KINDS: dict[str, StoreKind] = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}
_AZURE_DEFAULT_DOMAIN = "core.windows.net"
# The public cloud, the sovereign clouds, and the DNS zones that new accounts may be placed in.
_AZURE_HOST = re.compile(
    r"(?P<account>[a-z0-9_-]+)\.(?:(?P<zone>z\d+)\.)?(?:blob|dfs)\."
    r"(?P<domain>core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net"
    r"|core\.cloudapi\.de|storage\.azure\.net)"
)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in an object store: a prefix or one object. Equal places are equal values.

    Build one with `parse`, which normalises; `child` joins verbatim.
    """

    kind: StoreKind
    container: str  # bucket or container; empty for local
    key: str  # no leading slash, no trailing slash; local: the absolute path without its first "/"
    account: str = ""  # azure only
    endpoint: str = ""  # azure only, and only where it is not the public cloud's

    @classmethod
    def parse(
        cls, uri: str, *, namespace_root: str | None = None, is_name: bool = False
    ) -> Location:
        """The place that `uri` names.

        Args:
            uri: any spelling of the table above.
            namespace_root: the folder under which a lakeFS server keeps its `local://NAME` namespaces.
            is_name: it was written by a program that knows no signed addresses, so `?` and `#` are of the key.

        Raises:
            ConfigError: kind `bad-location`, when the spelling is not understood. Nothing is guessed.
        """
        scheme, colon, rest = uri.partition(":")
        scheme = scheme.lower()
        if not colon:
            raise _not_understood(uri, "it has no scheme; a local folder is written file:///path")
        if scheme == "file":
            return _parse_file(uri, rest)
        if not rest.startswith("//"):
            raise _not_understood(uri, f"{scheme}: must be followed by //")
        rest = rest[2:]
        if scheme in _BUCKET_KINDS:
            bucket, key = _split_container(uri, rest)
            return cls(_BUCKET_KINDS[scheme], bucket, key)
        if scheme in ("abfs", "abfss", "wasb", "wasbs"):
            return _parse_hadoop_azure(uri, rest)
        if scheme in ("http", "https"):
            return _parse_azure_url(uri, scheme, rest, is_name)
        if scheme == "local":
            return _parse_local(uri, rest, namespace_root)
        if scheme == "mem":
            container, _, key = rest.partition("/")
            return cls("mem", container, _trimmed_key(uri, key))
        raise _not_understood(
            uri, f"the scheme {scheme!r} is none of s3, gs, abfss, https, file, local, mem"
        )

    def child(self, relative: str) -> Location:
        """The place `relative` below this one, joined verbatim with one "/"."""
        key = f"{self.key}/{relative}" if self.key else relative
        return Location(self.kind, self.container, key, self.account, self.endpoint)

    def relative(self, other: Location) -> str | None:
        """`other`'s key as seen from here, or None when it lies elsewhere. This place itself is ""."""
        if self._store != other._store:
            return None
        if not self.key or self.key == other.key:
            return other.key[len(self.key) :]
        return other.key[len(self.key) + 1 :] if other.key.startswith(self.key + "/") else None

    def contains(self, other: Location) -> bool:
        """Whether `other` is this place or lies below it."""
        return self.relative(other) is not None

    def parents(self) -> Iterator[Location]:
        """The places that this one lies in, the innermost first and the whole store last."""
        key = self.key
        while key:
            key = key.rpartition("/")[0]
            yield Location(self.kind, self.container, key, self.account, self.endpoint)

    @property
    def uri(self) -> str:
        """The canonical spelling, which `parse` reads back as an equal value."""
        if self.kind == "local":
            return f"file:///{self.key}"
        if self.kind == "azure":
            base = self.endpoint or f"https://{self.account}.blob.{_AZURE_DEFAULT_DOMAIN}"
            return _joined(f"{base}/{self.container}", self.key)
        return _joined(f"{self.kind}://{self.container}", self.key)

    def __str__(self) -> str:
        return self.uri

    @property
    def _store(self) -> tuple[str, str, str, str]:
        return (self.kind, self.container, self.account, self.endpoint)


def _joined(base: str, key: str) -> str:
    return f"{base}/{key}" if key else base


def _not_understood(uri: str, why: str) -> ConfigError:
    # A query may hold a signature, so it never reaches the message.
    shown = uri.partition("?")[0]
    return ConfigError(
        f"location {shown!r} is not understood: {why}; nothing was touched.", kind="bad-location"
    )


def _trimmed_key(uri: str, key: str) -> str:
    """`key` without the one trailing slash that marks a prefix."""
    key = key.removesuffix("/")
    if key.startswith("/") or key.endswith("/"):
        raise _not_understood(uri, "its key begins or ends with an empty segment (//)")
    return key


def _split_container(uri: str, rest: str) -> tuple[str, str]:
    container, _, key = rest.partition("/")
    if not container:
        raise _not_understood(uri, "it names no bucket or container")
    if "@" in container or ":" in container:
        raise _not_understood(
            uri, "its bucket holds '@' or ':'; credentials and ports do not belong there"
        )
    return container, _trimmed_key(uri, key)


def _azure_account(uri: str, host: str) -> tuple[str, str]:
    """(account, endpoint) of a host in an Azure domain; the endpoint is empty in the public cloud."""
    match = _AZURE_HOST.fullmatch(host.lower())
    if match is None:
        raise _not_understood(uri, f"{host!r} is not <account>.blob.<an Azure domain>")
    account, zone, domain = match["account"], match["zone"], match["domain"]
    if (zone is None) == (domain == "storage.azure.net"):
        raise _not_understood(uri, f"{host!r} is not <account>.blob.<an Azure domain>")
    if domain == _AZURE_DEFAULT_DOMAIN:
        return account, ""
    return account, f"https://{account}.{zone + '.' if zone else ''}blob.{domain}"


def _parse_hadoop_azure(uri: str, rest: str) -> Location:
    authority, _, key = rest.partition("/")
    container, at, host = authority.partition("@")
    if not at or not container or not host:
        raise _not_understood(uri, "it must begin with <container>@<account>.dfs.core.windows.net")
    account, endpoint = _azure_account(uri, host)
    return Location("azure", container, _trimmed_key(uri, key), account, endpoint)


def _parse_azure_url(uri: str, scheme: str, rest: str, is_name: bool) -> Location:
    if not is_name and ("?" in rest or "#" in rest):
        raise _not_understood(
            uri, "it holds a query or a fragment; give signatures as storage options"
        )
    host, _, path = rest.partition("/")
    if _AZURE_HOST.fullmatch(host.lower()):
        account, endpoint = _azure_account(uri, host)
    elif _is_own_server(host):
        # An emulator serves all accounts on one host: the account is the path's first segment.
        account, _, path = path.partition("/")
        if not account:
            raise _not_understood(uri, "it names no account after the host")
        endpoint = f"{scheme}://{host.lower()}/{account}"
    else:
        raise _not_understood(
            uri, f"{host!r} is neither an Azure domain nor host:port of an emulator"
        )
    container, key = _split_container(uri, path)
    return Location("azure", container, key, account, endpoint)


def _is_own_server(host: str) -> bool:
    name, colon, port = host.rpartition(":")
    if colon and port.isascii() and port.isdigit() and re.fullmatch(r"[A-Za-z0-9.-]+", name):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    return True


def _parse_file(uri: str, rest: str) -> Location:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise _not_understood(uri, "a file location is file:/path or file:///path")
        rest = "/" + path
    if not rest.startswith("/"):
        raise _not_understood(uri, "a file location needs an absolute path")
    return _local(uri, rest)


def _parse_local(uri: str, rest: str, namespace_root: str | None) -> Location:
    if rest.startswith("/"):
        return _local(uri, rest)
    if not rest.strip("/"):
        raise _not_understood(uri, "it names no namespace")
    if namespace_root is None:
        raise _not_understood(
            uri,
            "local://NAME needs the folder that the server keeps such namespaces in (--namespace-root)",
        )
    if not namespace_root.startswith("/"):
        raise _not_understood(uri, f"the namespace root {namespace_root!r} is not an absolute path")
    return _local(uri, f"{namespace_root}/{rest}")


def _local(uri: str, path: str) -> Location:
    segments = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in segments or "\0" in path:
        # With a link in the path, ".." is not what it looks like.
        raise _not_understood(uri, "its path holds '..' or a NUL byte")
    return Location("local", "", "/".join(segments))
