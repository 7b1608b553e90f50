"""What must do no harm: a slip of the hand in the view, and the names that a program gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.lab import (
    PICTURED,
    UNHURRIED,
    Lab,
    View,
    execute,
    expect,
    open_notebook,
    run_cells,
    save,
)
from tests.browser.test_live_view import SETUP, TRAIN
from tests.browser.test_panel import Panel, status_item

BUTTONS = ".tos-buttons button"

PARTS = "button, input, select, summary, [tabindex]"
"""What takes the keyboard's focus in the view."""

LOOK = """() => {
    const { content, sessionContext } = jupyterapp.shell.currentWidget;
    return [
        content.widgets.length,
        content.activeCellIndex,
        content.outerNode.scrollTop,
        sessionContext.session.kernel.id,
        document.querySelectorAll('.jp-Dialog').length,
    ];
}"""
"""Of the notebook: cells, which is active, how far it is scrolled, its kernel; and dialogs."""

CLICK_AGAIN = """([x, y]) => {
    const button = document.elementFromPoint(x, y).closest('button');
    new MutationObserver((_, observer) => {
        if (button.dataset.tos !== 'pause') return;
        observer.disconnect();
        document.elementFromPoint(x, y).click();
        window.clickedAgain = true;
    }).observe(button, { attributes: true, attributeFilter: ['data-tos'] });
}"""
"""Click as soon as the button is another one: the second click of somebody who is quick."""

KEYS = ("d", "d", "b", "0", "0", "x", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft")


@pytest.fixture
def training(page: Any, lab: Lab) -> View:
    """A notebook whose training has begun, with a cell below."""
    open_notebook(page, lab, "slip", SETUP + UNHURRIED, TRAIN, "1 + 1")
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
    # As on a small screen, with the file browser beside the notebook.
    page.set_viewport_size({"width": 1280, "height": 800})
    frame = view.frame
    assert frame[0] <= 130
    assert frame[1] <= 520
    at_rest = boxes(page)
    view.press("pause")
    view.becomes("paused")
    assert boxes(page) == at_rest
    view.says("in force: pause")
    assert boxes(page) == at_rest
    assert view.frame == frame
    picture("paused")

    # Where the pointer is, as a person does who has not seen that the first click did it.
    unpause = view.root.locator('[data-tos="unpause"]:not([data-fresh])').bounding_box()
    middle = unpause["x"] + unpause["width"] / 2, unpause["y"] + unpause["height"] / 2
    page.evaluate(CLICK_AGAIN, middle)
    page.mouse.click(*middle)
    view.becomes("running")
    page.wait_for_function("() => window.clickedAgain")
    view.moves()
    assert view.root.get_attribute("data-state") == "running"

    view.part("stop").click()
    assert boxes(page) == at_rest
    assert view.frame == frame
    picture("stop-asked")
    page.keyboard.press("Escape")

    # Over the charts, so that nothing moves.
    view.part("steer").click()
    expect(view.part("apply")).to_be_visible()
    assert view.frame == frame
    picture("steering")
    names = view.root.locator(PARTS)
    for index in range(names.count()):
        part = names.nth(index)
        if not part.is_visible():
            continue
        # What is out of sight comes into sight with the focus, before the keys.
        part.focus()
        before = page.evaluate(LOOK)
        for key in KEYS:
            page.keyboard.press(key)
        assert page.evaluate(LOOK) == before, part.evaluate("part => part.outerHTML")[:200]
    smoothing = view.root.locator('input[type="range"]').first
    smoothing.focus()
    before = page.evaluate(LOOK)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(LOOK) == before
    page.keyboard.press("Escape")
    assert 0 < float(smoothing.input_value()) < float(smoothing.get_attribute("max"))

    view.stop()
    view.becomes("stopped")


IMAGE = '<img src=x onerror="hit=1">'
NAMES = IMAGE, "rtl\u202egpj", "n" * 10_000

PROGRAM = f"""
import tensorflow as tf, tos_notebook as tos
weights = tf.Variable(tf.zeros([64, 10]), name="weights")
def loss(x, y):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weights)
feeds = tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int64)
program = tos.capture(
    [weights], loss=loss, optimizer="sgd", feeds=feeds, metrics=dict.fromkeys({NAMES!r}, loss)
)
every = "--validation-every 1s --epochs 100000"
%tos_train --model program --data train --validation-data train {{every}} -o run
"""

FITS = "part => part.scrollWidth <= part.clientWidth"


@pytest.mark.long
def test_hostile_names_of_metrics_execute_nothing_and_leave_the_layout_as_it_is(
    page: Any, lab: Lab, picture: Callable[[str], None]
) -> None:
    path = open_notebook(page, lab, "hostile", SETUP + UNHURRIED, PROGRAM)
    run_cells(page, 0, 1)
    execute(page, "tos-notebook:open-panel")
    view, panel = View(page), Panel(page, "hostile")
    view.reaches(1)
    facts = view.root.locator(".tos-facts")
    expect(facts).to_contain_text(f"val {IMAGE}")
    expect(facts).to_contain_text("val rtl\\u202egpj")
    expect(facts.get_by_text("nn…nn")).to_be_visible()
    for name in (IMAGE, "rtl\\u202egpj"):
        chart = view.root.locator('[data-tos="metric-chart"]').filter(has_text=name)
        expect(chart.locator("canvas")).to_be_visible()
        expect(panel.runs).to_contain_text(f"validation {name}")
    picture("hostile-names")
    for part in (view.root, facts, panel.root):
        assert part.evaluate(FITS), part.evaluate("part => part.className")
    box = status_item(page).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1200

    view.stop()
    # What is saved of the run shows them, too.
    page.wait_for_function(PICTURED)
    save(page)
    text = path.read_text(encoding="utf-8")
    assert "\u202e" not in text
    assert "validation &lt;img" in text
    lab.end_kernels(page)
    page.reload()
    view.becomes("stopped")
    expect(view.root).to_contain_text(IMAGE)
    assert page.locator('img[src="x"]').count() == 0
    assert page.evaluate("() => window.hit") is None
