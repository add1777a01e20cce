"""What an option is: its name, its kind, what it means, where it may come from, and when it lowers a guard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from lakesweep.settings.kinds import Kind

__all__ = ["Option", "choose"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Its flag is `--name`, and its environment variable is the prefix and the name."""

    name: str
    kind: Kind
    help: str
    default: str | None = None
    default_text: str = ""  # what help says where the default is not a value
    metavar: str = ""
    short: str = ""  # a flag of one letter
    group: str = ""  # by its name a command may ask for all options that have it
    prefix: str = "LAKESWEEP_"  # empty: there is no variable
    has_flag: bool = True
    is_secret: bool = False
    # Which values lower a guard, and so work on the command line only: all, or those beyond the default.
    guard: Literal["none", "any value", "above", "below"] = "none"
    spark_property: str = ""  # without `spark.hadoop.`
    spark_only: bool = False
    may_be_bare: bool = False  # may be given without a value, as in picocli's arity 0..1

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable; empty where there is none."""
        return self.prefix and self.prefix + self.name.upper()

    @property
    def file_key(self) -> str:
        return self.name.replace("_", "-")

    @property
    def shown_metavar(self) -> str:
        return self.metavar or self.kind.metavar

    @property
    def shown_default(self) -> str | None:
        return self.default_text or self.default

    @property
    def default_value(self) -> Any:
        return self.kind.empty if self.default is None else self.kind.parse(self.default)

    @property
    def command_line_only(self) -> bool:
        return self.guard == "any value"

    def lowers_guard(self, value: Any) -> bool:
        """Whether this value makes a run less careful than the default does."""
        if self.guard in ("above", "below"):
            default = self.default_value
            return bool(value > default if self.guard == "above" else value < default)
        return self.command_line_only


def choose(table: Iterable[Option], wanted: Iterable[str]) -> list[Option]:
    """The options of these names and groups that have a flag, in the table's order."""
    return [o for o in table if o.has_flag and not {o.name, o.group}.isdisjoint(wanted)]
