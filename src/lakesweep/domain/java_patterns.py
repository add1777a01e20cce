"""Regular expressions written for Java, compiled by Python: what both know, what is easy to say anew, and no guesses."""

from __future__ import annotations

import re
import warnings

from lakesweep.errors import ConfigError

__all__ = ["compile_java_pattern"]

_REWRITTEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"  # literal text; without its end it goes on to the end
    r"|\(\?<(?P<group>[A-Za-z][A-Za-z0-9]*)>"
    r"|\\k<(?P<back>[A-Za-z][A-Za-z0-9]*)>"
    r"|(?P<end>\\[zZ])"
    r"|(?P<escape>\\.)"
    r"|(?P<python>\(\?P|\(\?\(|\(\?#)",  # Java has none of these, so they mean a mistake
    re.DOTALL,
)


def compile_java_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compile a pattern to be used with `fullmatch`.

    `\Q…\E`, named groups and `\z` are rewritten; `\d`, `\w` and the like are ASCII, as in Java. What Python can't say
    (`\p{…}`, intersections of sets) is refused: a policy on the wrong references could delete.
    """
    try:
        with warnings.catch_warnings():
            # Python only warns of `[a&&b]` and nested sets, which mean something else in Java.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(_REWRITTEN.sub(_rewrite, pattern), re.ASCII)
    except (re.error, FutureWarning, OverflowError, RecursionError, ValueError) as error:
        raise ConfigError(
            f"The pattern {pattern!r} is not a regular expression that lakesweep understands ({error}). "
            "Write it with plainer means: names, ., [a-z], *, +, ?, | and groups.",
            kind="bad-pattern",
        ) from error


def _rewrite(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return re.escape(match["quoted"])
    if match["group"]:
        return f"(?P<{match['group']}>"
    if match["back"]:
        return f"(?P={match['back']})"
    if match["end"]:
        return r"\Z"
    if match["python"]:
        raise ValueError(f"{match['python']} is not of Java")
    return match[0]
