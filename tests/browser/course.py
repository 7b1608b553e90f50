"""Run cells of the course in JupyterLab, and answer its exercises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.lab import run_cells

COURSE = Path(__file__).parents[2] / "notebooks"

TYPE = """([index, text]) => {
    const { content } = jupyterapp.shell.currentWidget;
    content.activeCellIndex = index;
    content.activeCell.model.sharedModel.setSource(text);
}"""
SAYS = """([index, word]) => {
    const cell = jupyterapp.shell.currentWidget.content.model.cells.get(index);
    const said = cell.outputs.toJSON().map(one => one.text ?? '').join('');
    const ready = cell.executionState !== 'running' && cell.executionCount !== null;
    return ready && said.split('\\n').some(line => line.startsWith(word));
}"""
RAN = """last => {
    const cells = [...jupyterapp.shell.currentWidget.content.model.cells].slice(0, last);
    const code = cells.filter(cell => cell.type === 'code');
    return code.every(cell => cell.executionCount !== null && cell.executionState !== 'running');
}"""
ERRORS = """() => [...jupyterapp.shell.currentWidget.content.model.cells]
    .filter(cell => cell.type === 'code')
    .flatMap(cell => cell.outputs.toJSON())
    .filter(one => one.output_type === 'error')
    .map(one => one.evalue)"""
FORGET = "() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs')"
FORGET_ONE = """index => {
    const { content } = jupyterapp.shell.currentWidget;
    content.activeCellIndex = index;
    content.activeCell.model.outputs?.clear();
}"""


def answer(page: Any, index: int, text: str, word: str) -> None:
    """Type an answer into a cell, run it, and wait for a line that begins with a word."""
    page.evaluate(FORGET_ONE, index)
    page.evaluate(TYPE, [index, text])
    run_cells(page, index)
    page.wait_for_function(SAYS, arg=[index, word])
