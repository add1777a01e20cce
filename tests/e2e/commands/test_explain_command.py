"""`lakesweep explain` as a command and as a function of the package; neither needs Spark for a few objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakesweep
from lakesweep.domain.explanations import Said
from lakesweep_testing.commands import Repository, Shell

MakeRepository = Callable[[str], Repository]


@pytest.fixture(scope="module")
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository("explained")


def test_objects_by_address_and_path(shell: Shell, repository: Repository) -> None:
    """Text for people, one JSON document for programs, and the same words in both."""
    name = repository.name
    text = shell.run("explain", name, repository.expired, "live@main", f"lakefs://{name}/main/live")
    assert f"{repository.expired}: GARBAGE" in text
    assert "It was expired in commit" in text
    assert f"lakefs://{name}/main/live: LIVE" in text
    found = shell.json("explain", name, repository.unreferenced, "nonsense", "--min-age", "30d")
    assert found["schema"] == "lakesweep.explain/1"
    young, unknown = found["objects"]
    assert (young["said"], unknown["said"]) == ("young", "unknown")
    assert young["goes_at"] is not None
    shell.run("explain", name, status=2)
    assert "Which object?" in shell.err


def test_the_function_answers_without_a_session(environment: None, repository: Repository) -> None:
    """For notebooks and pages: a frozen value with its JSON."""
    found = lakesweep.explain(repository.name, repository.expired, repository.live)
    assert [e.said for e in found.objects] == [Said.GARBAGE, Said.LIVE]
    assert found.to_json()["objects"][0]["reason"] == "expired"
    with pytest.raises(lakesweep.LakesweepError, match="minage"):
        lakesweep.explain(repository.name, repository.live, minage="1d")  # type: ignore[call-arg]
