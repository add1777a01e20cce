"""The notebook among the examples, run from its first cell to its last by Jupyter's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.filterwarnings("default")
def test_the_notebook_finds_and_deletes_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty objects are young, then garbage, then gone; in a kernel of an environment that nobody activated."""
    # An earlier test of this process may have set it.
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    notebook: Any = nbformat.read(ROOT / "examples" / "notebook" / "first_look.ipynb", as_version=4)
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    answers = [
        "".join(output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", []))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    shown = [answer for answer in answers if answer]
    assert "'young': 20" in shown[-3]
    assert "'garbage': 20" in shown[-2]
    assert "20" in shown[-1]
