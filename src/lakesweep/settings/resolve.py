"""From what was found for an option to its value, for all command lines: parsed, and refused where it lowers a guard."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lakesweep.errors import ConfigError
from lakesweep.secrets import SecretMask, is_secret_name, secrets_in_url
from lakesweep.settings.option import Option
from lakesweep.settings.sources import Found, Rank

__all__ = ["errors_naming", "parse", "remember_secrets", "resolve"]


def resolve(option: Option, found: Found | None) -> Any:
    """The value that was found, or the default.

    Raises:
        ConfigError: the value can't be read, or it lowers a guard and does not stand on the command line.
    """
    if found is None:
        return option.default_value
    value = parse(option, found)
    # Guards are lowered where someone types, never by what an environment happens to hold.
    if option.lowers_guard(value) and found.rank is not Rank.FLAG:
        beyond = (
            "" if option.command_line_only else f"{option.guard} the default of {option.default} "
        )
        raise ConfigError(
            f"{found.where}: {option.flag} {beyond}works on the command line only, because it lowers a guard. "
            "Nothing was touched.",
            kind="command-line-only",
        )
    return value


def parse(option: Option, found: Found) -> Any:
    """The value as its kind reads it; the error names the flag, variable or file that has it."""
    with errors_naming(found.where):
        try:
            return option.kind.parse(found.raw)
        except ConfigError:
            if option.is_secret:
                raise ConfigError("The value is not a text.") from None
            raise


@contextlib.contextmanager
def errors_naming(where: str) -> Iterator[None]:
    """Wrong values in this block are errors that name the place they came from."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            f"{where}: {error.message} Nothing was touched.", kind=error.kind
        ) from None


def remember_secrets(option: Option, found: Found, mask: SecretMask) -> None:
    """Tell the mask of secrets in the value, before anything can fail over it and quote it."""
    if option.is_secret:
        mask.remember([str(found.raw)])
    elif option.kind.is_pairs:
        with contextlib.suppress(ConfigError):  # whoever needs the pairs says what is wrong
            for name, value in parse(option, found).items():
                mask.remember([value] if is_secret_name(name) else secrets_in_url(value))
    elif isinstance(found.raw, str):
        mask.remember(secrets_in_url(found.raw))
