"""Log lines begin with the ids they concern, for people and for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from lakesweep.logs import configure_logging, log_ids
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
def test_text_lines_begin_with_ids_in_the_order_they_were_set() -> None:
    """repo first, then run; an inner value takes the outer one's place."""
    out = io.StringIO()
    configure_logging("info", "text", mask=SecretMask(), stream=out)
    with log_ids(repo="lake"), log_ids(run="g1"):
        logging.getLogger("x").info("listed %d objects", 3)
        with log_ids(repo="other"):
            logging.getLogger("x").info("inside")
    logging.getLogger("x").info("outside")
    lines = [line.split(" ", 2)[2] for line in out.getvalue().splitlines()]
    assert lines == ["repo#lake run#g1 listed 3 objects", "run#g1 repo#other inside", "outside"]


@pytest.mark.usefixtures("restored_logging")
def test_json_lines_carry_ids_as_fields() -> None:
    """One object a line, exceptions included."""
    out = io.StringIO()
    configure_logging("info", "json", mask=SecretMask(["hush-hush"]), stream=out)
    with log_ids(repo="lake"):
        try:
            raise ValueError("hush-hush")
        except ValueError:
            logging.getLogger("x").exception("failed with hush-hush")
    (line,) = out.getvalue().splitlines()
    fields = json.loads(line)
    assert fields["repo"] == "lake"
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
