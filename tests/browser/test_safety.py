"""What a slip of the hand in the view must not do: end the run, or edit the notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.lab import Lab, View, open_notebook, run_cells
from tests.browser.test_live_view import SETUP, TRAIN

BUTTONS = ".tos-buttons button"

PARTS = "button, input, select, summary, [tabindex]"
"""What takes the keyboard's focus in the view."""

LOOK = """() => {
    const { content, sessionContext } = jupyterapp.shell.currentWidget;
    return [
        content.widgets.length,
        content.activeCellIndex,
        sessionContext.session.kernel.id,
        document.querySelectorAll('.jp-Dialog').length,
    ];
}"""
"""Of the notebook: cells, which is active, its kernel; and dialogs."""

KEYS = ("d", "d", "b", "0", "0", "x", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft")


@pytest.fixture
def training(page: Any, lab: Lab) -> View:
    """A notebook whose training has begun, with a cell below."""
    open_notebook(page, lab, "training", SETUP, TRAIN, "1 + 1")
    run_cells(page, 0, 1)
    view = View(page)
    view.reaches(1)
    return view


def boxes(page: Any) -> list[dict[str, float]]:
    """Return where the buttons are, relative to the first."""
    found = [one.bounding_box() for one in page.locator(BUTTONS).all()]
    return [{"x": b["x"] - found[0]["x"], "w": b["width"], "h": b["height"]} for b in found]


def test_a_slip_of_the_hand_ends_no_run_and_edits_no_notebook(
    page: Any, training: View, picture: Callable[[str], None]
) -> None:
    view = training
    at_rest = boxes(page)
    view.press("pause")
    view.becomes("paused")
    assert boxes(page) == at_rest
    view.root.get_by_text("in force (pause)").first.wait_for()
    assert boxes(page) == at_rest
    picture("paused")

    # Where the pointer is, as a person does who has not seen that the first click did it.
    resume = view.root.locator('[data-tos="resume"]:not([data-fresh])').bounding_box()
    middle = resume["x"] + resume["width"] / 2, resume["y"] + resume["height"] / 2
    page.mouse.click(*middle)
    view.becomes("running")
    page.mouse.click(*middle)
    view.moves()
    assert view.root.get_attribute("data-state") == "running"

    view.part("stop").click()
    assert boxes(page) == at_rest
    picture("stop-asked")
    page.keyboard.press("Escape")

    before = page.evaluate(LOOK)
    names = view.root.locator(PARTS)
    for index in range(names.count()):
        part = names.nth(index)
        if not part.is_visible():
            continue
        part.evaluate("part => part.focus({ preventScroll: true })")
        for key in KEYS:
            page.keyboard.press(key)
        assert page.evaluate(LOOK) == before, part.evaluate("part => part.outerHTML")[:200]
    smoothing = view.root.locator('input[type="range"]').first
    smoothing.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(LOOK) == before
    assert 0 < float(smoothing.input_value()) < float(smoothing.get_attribute("max"))

    view.stop()
    view.becomes("stopped")
