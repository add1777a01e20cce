"""What was given for the options: on the command line, else in the environment, else the default."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from lakesweep.cli.nessie.declared import OPTIONS, OURS, TOOL, OptionGroup, option
from lakesweep.errors import ConfigError
from lakesweep.secrets import is_secret_name, known_secrets, secrets_in_url

__all__ = ["Given", "refuse_misspelt_variables"]

T = TypeVar("T")

# Variables of nessie-gc whose options take no variable here, or that are no options.
_OTHER_VARIABLES = {f"{TOOL}LIVE_SET_ID", f"{TOOL}READ_LIVE_SET_ID_FROM", f"{TOOL}OUTPUT_FILE"}


class Given:
    """The options of one command. Groups that must be chosen on the command line can ask where a value came from."""

    def __init__(self, flags: Mapping[str, object], env: Mapping[str, str]) -> None:
        self._flags = {n: v for n, v in flags.items() if v not in (None, [], ())}
        self._env = {o.name: env[o.variable] for o in OPTIONS if env.get(o.variable, "").strip()}
        # Before anything can fail over them.
        known_secrets.remember([self.text("jdbc_password")])
        known_secrets.remember(secrets_in_jdbc_url(self.text("jdbc_url") or ""))
        known_secrets.remember(secrets_in_url(self.text("uri") or ""))
        for name in ("jdbc_properties", "nessie_option", "iceberg", "hadoop"):
            for word in self._words(name):
                _remember_pair(word)

    def chosen(self, group: OptionGroup) -> list[str]:
        """The options of a group that stand on the command line; the environment does not count."""
        return [o.flag for o in OPTIONS if o.group == group and o.name in self._flags]

    def is_given(self, name: str) -> bool:
        """Whether the command line or the environment has a value; a default is none."""
        return name in self._flags or name in self._env

    def is_on_command_line(self, name: str) -> bool:
        return name in self._flags

    def where(self, name: str) -> str:
        """The flag or the variable that the value came from."""
        return option(name).variable if self._is_from_environment(name) else option(name).flag

    def text(self, name: str) -> str | None:
        """The text of an option, or its default."""
        if name in self._flags:
            return str(self._flags[name])
        return self._env.get(name, option(name).default)

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """The value of an option; a text that can't be read is an error that names where it came from."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(text)
        except ConfigError as error:
            raise ConfigError(
                f"{self.where(name)}: {error.message} Nothing was touched.", kind=error.kind
            ) from None

    def must_read(self, name: str, parse: Callable[[str], T]) -> T:
        """The value of an option that has a default."""
        value = self.read(name, parse)
        assert value is not None
        return value

    def switch(self, name: str) -> bool:
        """Whether a switch is on. The command line says what it says, whatever the environment holds."""
        flag = self._flags.get(name)
        if isinstance(flag, bool):
            return flag
        return self.read(name, _yes_or_no) or False

    def values(self, name: str) -> tuple[str, ...]:
        """All values of an option that may be repeated."""
        return tuple(self._words(name))

    def pairs(self, name: str) -> dict[str, str]:
        """`k=v[,k=v]`, repeated or not, in order; on the command line they take the place of the variable's."""
        found: dict[str, str] = {}
        for item in (item for word in self._words(name) for item in _split(word)):
            key, equals, value = item.partition("=")
            if not equals or not key.strip():
                # The item may be half of a secret, so it is not repeated.
                raise ConfigError(
                    f"{self.where(name)}: write {option(name).metavar.replace('[,…]', '')}; one part has no name or "
                    "no '='. Nothing was touched.",
                    kind="bad-pair",
                )
            found[key.strip()] = value
        return found

    def _words(self, name: str) -> list[str]:
        flag = self._flags.get(name)
        if isinstance(flag, list | tuple):
            return [str(word) for word in flag]
        return [self._env[name]] if name in self._env else []

    def _is_from_environment(self, name: str) -> bool:
        return name not in self._flags and name in self._env


def secrets_in_jdbc_url(url: str) -> frozenset[str]:
    """A password between `//` and `@`, or among the parameters behind `?`, `&` or `;`."""
    parameters = re.findall(r"[?&;]([^=&;?]+)=([^&;]+)", url)
    named = {value for name, value in parameters if is_secret_name(name)}
    return secrets_in_url(url.removeprefix("jdbc:")) | named


def refuse_misspelt_variables(env: Mapping[str, str]) -> None:
    """A variable that is nearly an option's may have been meant to keep files (`…DEFER_DELETE`), so it is an error.

    Others with nessie-gc's prefix are left alone: Kubernetes makes some for a service of that name. Nobody but a user
    makes those with ours.
    """
    known = {o.variable for o in OPTIONS if o.variable} | _OTHER_VARIABLES
    for variable in sorted(env):
        if variable in known or not variable.startswith((TOOL, OURS)):
            continue
        near = _nearest(variable, known)
        if near:
            raise _no_option(variable, f"{near} is")
        if variable.startswith(OURS):
            raise _no_option(variable, "what lowers a guard works on the command line only")


def _no_option(variable: str, hint: str) -> ConfigError:
    return ConfigError(
        f"{variable} in the environment is no option of `lakesweep nessie`; {hint}. Nothing was touched.",
        kind="unknown-variable",
    )


def _nearest(variable: str, known: Iterable[str]) -> str:
    prefix = OURS if variable.startswith(OURS) else TOOL
    ends = {name.removeprefix(prefix): name for name in known if name.startswith(prefix)}
    near = difflib.get_close_matches(variable.removeprefix(prefix), ends, n=1, cutoff=0.85)
    return ends[near[0]] if near else ""


def _split(word: str) -> list[str]:
    """Parts between commas; a comma inside double quotes parts nothing."""
    return [part for part in re.findall(r'(?:[^,"]|"[^"]*"|")+', word) if part.strip()]


def _remember_pair(word: str) -> None:
    for item in _split(word):
        name, _, value = item.partition("=")
        known_secrets.remember([value] if is_secret_name(name) else secrets_in_url(value))


def _yes_or_no(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{text!r} is neither true nor false.")
    return word == "true"
