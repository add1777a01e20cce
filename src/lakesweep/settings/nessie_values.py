"""Values of the options of `lakesweep nessie`: from the command line, else from the environment, else the default."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from lakesweep.errors import ConfigError
from lakesweep.secrets import known_secrets
from lakesweep.settings.nessie_kinds import ShownZone, machine_zone
from lakesweep.settings.nessie_options import (
    NESSIE_OPTION,
    NESSIE_OPTIONS,
    OUR_PREFIX,
    TOOL_PREFIX,
)
from lakesweep.settings.option import Option
from lakesweep.settings.resolve import remember_secrets, resolve
from lakesweep.settings.sources import Rank, from_flags, from_variables

__all__ = ["OptionValues", "refuse_misspelt_variables"]

# Variables of nessie-gc whose options take no variable here, or that are no options.
_OTHER_VARIABLES = {
    f"{TOOL_PREFIX}{name}" for name in ("LIVE_SET_ID", "READ_LIVE_SET_ID_FROM", "OUTPUT_FILE")
}


class OptionValues:
    """The options of one command. A value is read when it is asked for: what a run does not need can't stop it."""

    def __init__(
        self, chosen: Iterable[Option], flags: Mapping[str, object], env: Mapping[str, str]
    ) -> None:
        found = from_variables(env, NESSIE_OPTIONS) | from_flags(flags, NESSIE_OPTIONS)
        for name, one in found.items():
            remember_secrets(NESSIE_OPTION[name], one, known_secrets)
        self._found = {o.name: found[o.name] for o in chosen if o.name in found}

    def __getitem__(self, name: str) -> Any:
        """The value of an option, or its default.

        Raises:
            ConfigError: the value can't be read, or it lowers a guard from the environment.
        """
        return resolve(NESSIE_OPTION[name], self._found.get(name))

    def is_given(self, name: str) -> bool:
        """Whether the command line or the environment has a value; a default is none."""
        return name in self._found

    def is_on_command_line(self, name: str) -> bool:
        """Whether the value was typed."""
        return name in self._found and self._found[name].rank is Rank.FLAG

    def where(self, name: str) -> str:
        """The flag or the variable that the value came from."""
        return self._found[name].where if name in self._found else NESSIE_OPTION[name].flag

    @property
    def zone(self) -> ShownZone:
        """The zone that times are shown in."""
        return self["time_zone"] or machine_zone()

    def flags_in(self, group: str) -> list[str]:
        """The flags of a group that stand on the command line; the environment does not count."""
        grouped = [o for o in NESSIE_OPTIONS if group in (o.name, o.group)]
        return [o.flag for o in grouped if self.is_on_command_line(o.name)]


def refuse_misspelt_variables(env: Mapping[str, str]) -> None:
    """A variable that is nearly an option's may have been meant to keep files (`…DEFER_DELETE`), so it is an error.

    Others with nessie-gc's prefix are left alone: Kubernetes makes some for a service of that name. Nobody but a user
    makes those with ours.
    """
    known = {o.variable for o in NESSIE_OPTIONS if o.variable} | _OTHER_VARIABLES
    for variable in sorted(env):
        if variable in known or not variable.startswith((TOOL_PREFIX, OUR_PREFIX)):
            continue
        near = _nearest(variable, known)
        if near or variable.startswith(OUR_PREFIX):
            hint = f"{near} is" if near else "what lowers a guard works on the command line only"
            raise ConfigError(
                f"{variable} in the environment is not an option of `lakesweep nessie`; {hint}. Nothing was touched.",
                kind="unknown-variable",
            )


def _nearest(variable: str, known: Iterable[str]) -> str:
    prefix = OUR_PREFIX if variable.startswith(OUR_PREFIX) else TOOL_PREFIX
    ends = {name.removeprefix(prefix): name for name in known if name.startswith(prefix)}
    near = difflib.get_close_matches(variable.removeprefix(prefix), ends, n=1, cutoff=0.85)
    return ends[near[0]] if near else ""
