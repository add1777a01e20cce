"""Log lines for people and for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from lakesweep.logs import configure_logging
from lakesweep.secrets import SecretMask


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Put the root logger back as it was."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.usefixtures("restored_logging")
def test_text_lines_have_time_level_and_message() -> None:
    """In this order; the level in lower case."""
    out = io.StringIO()
    configure_logging("info", "text", mask=SecretMask(), stream=out)
    logging.getLogger("x").info("listed %d objects", 3)
    (line,) = out.getvalue().splitlines()
    assert line.split(" ", 1)[1] == "info listed 3 objects"


@pytest.mark.usefixtures("restored_logging")
def test_json_lines_are_objects() -> None:
    """One object a line, exceptions included."""
    out = io.StringIO()
    configure_logging("info", "json", mask=SecretMask(["hush-hush"]), stream=out)
    try:
        raise ValueError("hush-hush")
    except ValueError:
        logging.getLogger("x").exception("failed with hush-hush")
    (line,) = out.getvalue().splitlines()
    fields = json.loads(line)
    assert fields["level"] == "error"
    assert fields["message"] == "failed with ***"
    assert "ValueError: ***" in fields["error"]


@pytest.mark.usefixtures("restored_logging")
def test_a_second_configuration_takes_the_first_ones_place() -> None:
    """No line comes twice."""
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second)
    logging.getLogger("x").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


@pytest.mark.usefixtures("restored_logging")
def test_talkative_libraries_stay_quiet_at_debug() -> None:
    """At DEBUG they would log requests with their headers."""
    out = io.StringIO()
    configure_logging("debug", stream=out)
    logging.getLogger("botocore.auth").debug("StringToSign …")
    logging.getLogger("httpx").info("GET …")
    assert out.getvalue() == ""
