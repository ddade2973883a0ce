"""Progress: a function, and a bar in a notebook's kernel."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import polars
import pytest

import vesica

ROOT = Path(__file__).resolve().parents[2]


def test_a_function_hears_the_stages_in_order() -> None:
    table = polars.DataFrame({"id": range(5000)})
    seen: list[vesica.Progress] = []
    received, _ = vesica.rehearse(
        {"table": table, "on": "id", "progress": seen.append}, {"table": table, "on": "id"}
    )
    stages = list(dict.fromkeys(event.stage for event in seen))
    assert stages[0] == "reading" and stages[-1] == "writing"
    phases = [phase["phase"] for phase in received.report["phases"]]
    assert [stage for stage in stages if stage in phases] == list(dict.fromkeys(phases))
    last = seen[-1]
    assert last.bytes_sent == received.report["bytes_sent"]
    assert last.bytes_received == received.report["bytes_received"]
    steps = [event for event in seen if event.total is not None]
    assert all(0 <= event.done <= event.total for event in steps)


def cells_of(script: Path) -> list[str]:
    """The cells of a script in the percent format."""
    _, *cells = script.read_text(encoding="utf-8").split("# %%")
    return [cell.split("\n", 1)[1].strip() for cell in cells]


def test_a_notebook_shows_a_bar(tmp_path: Path) -> None:
    """A kernel runs a cell, as a notebook does, and the cell's output has the bar."""
    code = """
import polars, vesica
table = polars.DataFrame({"id": range(5000)})
received, _ = vesica.rehearse(
    {"table": table, "on": "id", "progress": "auto"}, {"table": table, "on": "id"})
received
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = notebook.cells[0].outputs
    bars = [o for o in outputs if "<progress" in o.get("data", {}).get("text/html", "")]
    (bar,) = bars
    assert "done" in bar["data"]["text/html"]
    (result,) = [o for o in outputs if o.output_type == "execute_result"]
    assert "<Result size=5000" in result["data"]["text/plain"]
    assert not [o for o in outputs if o.output_type in ("stream", "error")]


def test_the_example_runs_in_a_notebook() -> None:
    script = ROOT / "examples" / "python" / "donors.py"
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells_of(script)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": script.parent}}
    ).execute()


def test_no_bar_outside_of_notebooks(capsys: pytest.CaptureFixture[str]) -> None:
    table = polars.DataFrame({"id": [1]})
    arguments: dict[str, Any] = {"table": table, "on": "id", "progress": "auto"}
    vesica.rehearse(arguments, arguments)
    assert capsys.readouterr() == ("", "")


def test_what_is_raised_at_the_end_loses_no_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, background: Any
) -> None:
    """The output is in place by then, and the peer believes that the run went well."""
    ours, theirs = polars.DataFrame({"id": [1, 2]}), polars.DataFrame({"id": [3]})
    output, unraisable = tmp_path / "rows.parquet", []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        left, right = vesica.pair()
        sender = background(vesica.send, theirs, on="id", link=right)
        received = vesica.receive(ours, on="id", output=output, link=left)
        sender()
    assert received.size == 0 and polars.read_parquet(output).is_empty()
    (raised,) = [each.exc_value for each in unraisable]
    assert isinstance(raised, vesica.RunWarning) and "no key matches" in str(raised)

    def progress(event: vesica.Progress) -> None:
        if event.stage == "writing":
            # The run ends meanwhile.
            time.sleep(0.3)
            raise LookupError("enough")

    unraisable.clear()
    received, _ = vesica.rehearse(
        {"table": ours, "on": "id", "progress": progress}, {"table": ours, "on": "id"}
    )
    assert received.size == 2
    assert {str(each.exc_value) for each in unraisable} == {"enough"}
