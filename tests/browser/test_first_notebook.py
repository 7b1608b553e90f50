"""The first notebook of the course, as somebody who has just come runs it and steers in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from tests.browser.lab import Lab, View, ready, run_cells, save
from tos_notebook.widgets.saved import RUN

FIRST = Path(__file__).parents[2] / "notebooks/00_first_steps.ipynb"
IGNORED = "# NBVAL_IGNORE_OUTPUT"
STEERED = "run.wait_for(milestones=300)"
"""In the cell that shows a run which is far too long."""
ENDED = """() => {
    const { model } = window.jupyterapp.shell.currentWidget.content;
    const code = [...model.cells].filter(cell => cell.type === 'code');
    return code.every(cell => cell.executionCount !== null && cell.executionState !== 'running');
}"""
FORGET = "() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')"
SHOW = """index => {
    const { content } = window.jupyterapp.shell.currentWidget;
    void content.scrollToItem(index, 'start');
    return document.querySelector(`[data-windowed-list-index="${index}"] [data-milestones]`);
}"""


def outputs(path: Path) -> list[Any]:
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells for output in cell.get("outputs", [])]


def compared(path: Path) -> list[tuple[str, list[Any]]]:
    """Return the cells whose outputs do not vary, and what they print, as nbval compares them."""
    cells = [one for one in nbformat.read(path, as_version=4).cells if one.cell_type == "code"]
    return [
        (one.source, [(output.output_type, output.get("text")) for output in one.outputs])
        for one in cells
        if IGNORED not in one.source
    ]


def test_the_first_notebook_runs_is_steered_and_is_saved_small_with_its_results(
    page: Any, lab: Lab, picture: Callable[[str], None]
) -> None:
    path = Path(shutil.copy(FIRST, lab.folder))
    shutil.copytree(
        FIRST.with_name("tos_workshop"), lab.folder / "tos_workshop", dirs_exist_ok=True
    )
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    steered = next(i for i, source in enumerate(sources) if source.endswith(STEERED))
    page.goto(lab.notebook(path.stem))
    ready(page)
    # What it shows in the end is then its own, and not what it came with.
    page.evaluate(FORGET)
    run_cells(page, *range(steered + 1))

    page.wait_for_function(SHOW, arg=steered)
    view = View(page, f'[data-windowed-list-index="{steered}"]')
    view.reaches(1)
    view.press("pause")
    view.becomes("paused")
    view.steer(sync_interval="2")
    view.says("applies at")
    picture("first-notebook-steered")
    view.press("unpause")
    view.becomes("running")

    run_cells(page, *range(steered + 1, len(sources)))
    page.wait_for_function(ENDED)
    save(page)
    saved = outputs(path)
    assert [one for one in saved if one.output_type == "error"] == []
    assert compared(path) == compared(FIRST)
    pages = [one.data["text/html"] for one in saved if "text/html" in one.get("data", {})]
    assert sum('<img src="data:image/svg+xml' in html and "finished" in html for html in pages) >= 2
    assert any('<img src="data:image/svg+xml' in html and "stopped" in html for html in pages)
    assert sum(map(len, pages)) < 100_000
    # Charts without a kernel have a limit of their own.
    runs = [json.dumps(one.data[RUN]) for one in saved if RUN in one.get("data", {})]
    assert max(map(len, runs)) < 20_000
    # Each output, however many the course has. Plotly's own plug-in adds a bitmap of any size.
    apart = ("image/png", RUN)
    rest = [{k: v for k, v in one.get("data", {}).items() if k not in apart} for one in saved]
    assert max(len(json.dumps(data)) for data in rest) < 50_000
    picture("first-notebook-ended")
