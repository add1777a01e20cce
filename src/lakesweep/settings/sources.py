"""Where settings come from. Each source answers with what it has, as written there, and the name of the place."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import yaml

from lakesweep.errors import ConfigError
from lakesweep.settings.lakefs_options import SETTINGS
from lakesweep.settings.option import Option

__all__ = [
    *("Found", "Rank", "from_ecosystem", "from_file", "from_flags", "from_variables"),
    "unknown_variables",
]


class Rank(IntEnum):
    """The lowest wins."""

    FLAG = 1
    ENVIRONMENT = 2
    FILE = 3
    SPARK = 4
    ECOSYSTEM = 5


@dataclass(frozen=True, slots=True)
class Found:
    """A value as it was written, and where."""

    raw: object
    where: str
    rank: Rank


# Variables with our prefix that are no settings of the collector.
_OTHER_VARIABLES = ("LAKESWEEP_CACHE", "LAKESWEEP_CONFIG", "LAKESWEEP_PROCESS_TREE")
_PREFIX = "LAKESWEEP_"
_MISSPELT = 0.85  # how alike two names are, of which one is a slip
_OTHER_PREFIXES = ("LAKESWEEP_NESSIE_", "LAKESWEEP_SERVE_", "LAKESWEEP_TEST_")

# Setting → section of `.lakectl.yaml` that has a key of this name.
_LAKECTL_SECTIONS = {
    "endpoint_url": "server",
    "access_key_id": "credentials",
    "secret_access_key": "credentials",
}


def from_flags(flags: Mapping[str, object], table: Iterable[Option]) -> dict[str, Found]:
    """Options of the command line; None and an empty list mean that the option was not given."""
    return {
        option.name: Found(flags[option.name], option.flag, Rank.FLAG)
        for option in table
        if flags.get(option.name) not in (None, [], ())
    }


def from_variables(env: Mapping[str, str], table: Iterable[Option]) -> dict[str, Found]:
    """Options from the environment; an empty variable means that the option was not given."""
    return {
        option.name: Found(env[option.variable], option.variable, Rank.ENVIRONMENT)
        for option in table
        if not option.spark_only and env.get(option.variable, "").strip()
    }


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """A warning for each `LAKESWEEP_` variable that no setting has; environments are shared with other versions.

    Raises:
        ConfigError: one is nearly that of a setting, and may have been meant to keep data (`LAKESWEEP_DRYRUN`).
    """
    known = {setting.variable for setting in SETTINGS if not setting.spark_only}
    known.update(_OTHER_VARIABLES)
    ends = {name.removeprefix(_PREFIX): name for name in sorted(known)}
    warnings = []
    for variable in env:
        if (
            variable in known
            or not variable.startswith(_PREFIX)
            or variable.startswith(_OTHER_PREFIXES)
        ):
            continue
        near = difflib.get_close_matches(variable.removeprefix(_PREFIX), ends, 1, _MISSPELT)
        if near:
            raise ConfigError(
                f"{variable} in the environment is not a setting of lakesweep, and {ends[near[0]]} is. Nothing was touched. "
                "Correct or unset it.",
                kind="unknown-variable",
            )
        warnings.append(f"{variable} in the environment is not a setting of lakesweep.")
    return warnings


def from_file(path: Path) -> dict[str, Found]:
    """A TOML file whose keys are the flags without their dashes.

    Raises:
        ConfigError: the file can't be read, is not TOML, or has a key that no setting has.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"The config file {path} can't be read: {error.strerror}. Nothing was touched."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The config file {path} is not TOML: {error}. Nothing was touched."
        ) from error
    by_key = {setting.file_key: setting for setting in SETTINGS if not setting.spark_only}
    found: dict[str, Found] = {}
    for key, value in content.items():
        setting = by_key.get(key.replace("_", "-"))
        if setting is None:
            near = _nearest(key.replace("_", "-"), by_key)
            raise ConfigError(
                f"{path}: {key!r} is not a setting of lakesweep.{near} Nothing was touched."
            )
        if setting.name in found:
            raise ConfigError(
                f"{path}: {setting.file_key} stands there twice, with '-' and with '_'. Nothing was touched."
            )
        found[setting.name] = Found(value, f"{path}: {key}", Rank.FILE)
    return found


def from_ecosystem(env: Mapping[str, str], home: Path) -> tuple[dict[str, Found], list[str]]:
    """What lakectl would use: its variables, then its file."""
    found, warnings = _from_lakectl_file(
        Path(env.get("LAKECTL_CONFIG_FILE") or home / ".lakectl.yaml")
    )
    for name, section in _LAKECTL_SECTIONS.items():
        variable = f"LAKECTL_{section}_{name}".upper()
        if env.get(variable, "").strip():
            found[name] = Found(env[variable], variable, Rank.ECOSYSTEM)
    return found, warnings


def _from_lakectl_file(path: Path) -> tuple[dict[str, Found], list[str]]:
    # It belongs to another program: what is wrong with it is worth a word, and no reason to stop.
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeDecodeError) as error:
        return {}, [f"{path} can't be read and is left out: {error}."]
    except yaml.YAMLError:
        # The parser's message quotes the line, which may hold a secret.
        return {}, [f"{path} is not YAML and is left out."]
    found: dict[str, Found] = {}
    for name, section in _LAKECTL_SECTIONS.items():
        table = content.get(section) if isinstance(content, dict) else None
        value = table.get(name) if isinstance(table, dict) else None
        if isinstance(value, str) and value.strip():
            found[name] = Found(value, f"{path}: {section}.{name}", Rank.ECOSYSTEM)
    return found, []


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""
