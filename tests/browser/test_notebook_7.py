"""The live view in Jupyter Notebook 7, whose pages hold one notebook and no panel."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from tests.browser.lab import (
    PICTURED,
    UNHURRIED,
    Lab,
    View,
    execute,
    expect,
    ready,
    save,
    write_notebook,
)
from tests.browser.test_live_view import SETUP, TRAIN


@pytest.fixture
def training(page: Any, lab: Lab) -> View:
    """A notebook whose training has begun."""
    write_notebook(lab, "seven", SETUP + UNHURRIED, TRAIN)
    page.goto(lab.in_notebook_7("seven"))
    ready(page)
    execute(page, "notebook:run-all-cells")
    view = View(page)
    view.reaches(20)
    return view


# Its plug-in, view and pages are those of JupyterLab, which other tests here are about.
@pytest.mark.long
def test_a_run_is_steered_survives_a_reload_and_leaves_its_picture(
    page: Any, lab: Lab, training: View
) -> None:
    view = training
    view.part("loss-chart").locator("canvas").first.wait_for()
    view.root.get_by_role("button", name="Pause").click()
    view.becomes("paused")
    view.press("unpause")
    view.becomes("running")
    view.moves()

    # A run's tab opens below the document, with room to be seen.
    execute(page, "tos-notebook:open-run")
    tab = page.locator(".tos-lab-run-tab")
    expect(tab).to_be_visible()
    page.wait_for_function("tab => tab.offsetHeight > 250", arg=tab.element_handle())

    seen = view.milestones
    save(page)
    page.reload()
    view.reaches(seen)
    view.moves()

    view.stop()
    page.wait_for_function(PICTURED)
    save(page)
    outputs = nbformat.read(lab.folder / "seven.ipynb", as_version=4).cells[1].outputs
    pages = [output.get("data", {}).get("text/html", "") for output in outputs]
    assert any('<img src="data:image/svg+xml' in html and "stopped" in html for html in pages)
