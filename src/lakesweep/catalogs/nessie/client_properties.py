"""Client properties as Nessie's own clients take them: from `-o k=v`, else from the environment and the user's files."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakesweep.cachefolder import home_folder
from lakesweep.errors import ConfigError

__all__ = ["ClientProperties", "read_client_properties"]

logger = logging.getLogger(__name__)

_AUTHENTICATION = "nessie.authentication."
_OAUTH2 = f"{_AUTHENTICATION}oauth2."

_OAUTH2_KEYS = (
    *("issuer-url", "token-endpoint", "grant-type", "client-id", "client-secret", "client-auth"),
    *("client-scopes", "extra-params", "username", "password"),
    *("default-access-token-lifespan", "refresh-safety-window"),
)
KNOWN_KEYS = frozenset(
    {
        *(f"{_OAUTH2}{key}" for key in _OAUTH2_KEYS),
        *(f"{_AUTHENTICATION}{key}" for key in ("type", "token", "username", "password")),
        *(f"{_AUTHENTICATION}aws.{key}" for key in ("region", "profile")),
        "nessie.uri",
        "nessie.transport.read-timeout",
        "nessie.transport.connect-timeout",
        "nessie.transport.disable-compression",
        "nessie.ssl.no-certificate-verification",
        "nessie.http-redirects",
        "nessie.enable-api-compatibility-check",
    }
)
# Keys of the Java clients whose effect there is none of here: how a JVM connects, and what a catalog writes.
WITHOUT_EFFECT = frozenset(
    {
        *("nessie.http2-upgrade", "nessie.force-url-connection-client", "nessie.tracing"),
        *("nessie.client-api-version", "nessie.client-builder-impl", "nessie.client-builder-name"),
        *("nessie.ref", "nessie.ref.hash"),
        *(
            f"{_OAUTH2}default-refresh-token-lifespan",
            f"{_OAUTH2}preemptive-token-refresh-idle-timeout",
        ),
        f"{_OAUTH2}background-thread-idle-timeout",
    }
)


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Values by key. Not printed, as they hold secrets."""

    values: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ClientProperties({', '.join(sorted(self.values))})"

    def get(self, key: str) -> str | None:
        """The value of a key; a blank one is none."""
        return self.values.get(key, "").strip() or None

    def oauth2(self, key: str) -> str | None:
        """The value of a key of `nessie.authentication.oauth2`."""
        return self.get(f"{_OAUTH2}{key}")

    def needed(self, key: str, why: str) -> str:
        """A value that can't be done without."""
        value = self.get(key)
        if value is None:
            raise ConfigError(
                f"{why} needs the Nessie option {key}, which is not set. Nothing was asked of the server. "
                f"Give it as --nessie-option {key}=… or as the variable {environment_name(key)}.",
                kind="nessie-option",
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A true or false."""
        text = self.get(key)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigError(
                f"The Nessie option {key} is {text!r}; write true or false.", kind="nessie-option"
            )
        return text.lower() == "true"

    def seconds(self, key: str, default: float) -> float:
        """A number of milliseconds, as seconds."""
        text = self.get(key)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
            raise ConfigError(
                f"The Nessie option {key} is {text!r}; write a number of milliseconds.",
                kind="nessie-option",
            )
        return int(text) / 1000


def read_client_properties(
    properties: Mapping[str, str],
    *,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> ClientProperties:
    """What was given, and for every other known key the environment, then the files of Nessie's clients."""
    for key in properties:
        _refuse_unknown_authentication(key, key, _AUTHENTICATION, str)
        _warn_when_unknown(key)
    home = home_folder() if home is None else home
    configured = _read_file(home / ".config" / "nessie" / "nessie-client.properties")
    dotenv = _read_file(home / ".env")
    for key in configured:
        _refuse_unknown_authentication(key, key, _AUTHENTICATION, str)
    for name in (*environment, *dotenv):
        prefix = environment_name(_AUTHENTICATION)
        _refuse_unknown_authentication(f"variable {name}", name, prefix, environment_name)
    values = dict(properties)
    for key in KNOWN_KEYS - properties.keys():
        name = environment_name(key)
        for source, source_key in ((environment, name), (configured, key), (dotenv, name)):
            if source_key in source:
                values[key] = source[source_key]
                break
    return ClientProperties(values)


def environment_name(key: str) -> str:
    """The variable that stands for a key."""
    return re.sub(r"[.-]", "_", key).upper()


def _refuse_unknown_authentication(
    said: str, name: str, prefix: str, spelled: Callable[[str], str]
) -> None:
    """What is meant to say who asks is honoured or refused: asked as somebody else, Nessie hides references."""
    known = {spelled(key) for key in KNOWN_KEYS | WITHOUT_EFFECT}
    if not name.startswith(prefix) or name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ConfigError(
        f"The Nessie option {said} is not honoured here. Nothing was asked of the server, as a user who sees less "
        f"would make live data look like garbage.{hint}",
        kind="nessie-option",
    )


def _warn_when_unknown(key: str) -> None:
    if key in KNOWN_KEYS:
        return
    if key in WITHOUT_EFFECT:
        logger.info("nessie: the option %s has no effect here", key)
        return
    near = difflib.get_close_matches(key, KNOWN_KEYS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    logger.warning("nessie: the option %s is not known and was ignored%s", key, hint)


def _read_file(path: Path) -> dict[str, str]:
    """A file of `key=value` lines; an absent one is empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The file {path} with Nessie's client properties can't be read ({error}). Nothing was asked of the server.",
            kind="nessie-option",
        ) from error
    return parse_properties(text)


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties file: `=`, `:` or blanks after the key, `#` and `!` comments, lines that go on after a `\\`."""
    properties: dict[str, str] = {}
    # An odd number of backslashes before the line's end: it goes on.
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    for line in joined.splitlines():
        stripped = line.lstrip()
        if not stripped or stripped[0] in "#!":
            continue
        pair = _PAIR.fullmatch(stripped)
        if pair is not None:
            properties[_unescaped(pair[1])] = _unescaped(pair[2])
    return properties


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return _ESCAPED.sub(plain, text)
