"""The live view in JupyterLab, steered as a person would."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.lab import (
    FRAME,
    UNHURRIED,
    Lab,
    View,
    execute,
    expect,
    is_accessible,
    open_notebook,
    run_cells,
)

SETUP = """
%load_ext tos_notebook
%tos_connect local[2]
import numpy as np
from sklearn.datasets import load_digits
images, labels = load_digits(return_X_y=True)
train = images.astype("float32") / 16, labels.astype("int64")
"""
TRAIN = """
%%tos_train --data train --epochs 100000 --batch-size 32 --sync-interval 10 -o run
import keras
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")]
)
model.compile(keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
"""

FOCUSED = """view => {
    const { activeElement: part } = document;
    if (!view.contains(part)) return null;
    return part.dataset.tos ?? part.dataset.tab ?? part.className;
}"""
"""What of the view has the focus; null if nothing has."""

GROUND = """view => {
    const ground = selector => getComputedStyle(document.querySelector(selector)).backgroundColor;
    return ground('.tos-bar') === ground('.jp-Notebook');
}"""
"""Whether the header, which stays while a person scrolls, has the color of the notebook."""


@pytest.fixture
def training(page: Any, lab: Lab) -> Iterator[View]:
    """A notebook whose training has begun, where JupyterLab goes without the plug-in."""
    with lab.without("tos-notebook"):
        open_notebook(page, lab, "plain", SETUP + UNHURRIED, TRAIN)
        run_cells(page, 0, 1)
        view = View(page)
        view.reaches(1)
        yield view


def test_without_the_plug_in_a_person_watches_steers_reloads_and_stops(
    page: Any, training: View, picture: Callable[[str], None]
) -> None:
    """As elsewhere, too: the plug-in's own output is steered by the tests of the first notebook."""
    view = training
    assert page.locator(".tos-lab-output").count() == 0
    before = view.milestones
    view.reaches(before + 20)
    view.part("loss-chart").locator("canvas").first.wait_for()
    picture("training")
    looks_closer(page, view)
    fills_the_screen(page, view)
    goes_through_by_keyboard(page, view)

    # By what a screen reader says of it, and by what it is told then.
    view.root.get_by_role("button", name="Pause").click()
    view.becomes("paused")
    view.root.get_by_role("status").get_by_text("is paused").wait_for(state="attached")
    assert view.root.get_by_role("img").count() >= 2
    assert view.root.get_by_role("table", name="Workers").get_by_role("row").count() == 3
    # Each worker ends its milestone first.
    view.says("in force: pause")
    standing = view.milestones
    # An answer from the kernel lies between the two looks at the count.
    view.steer(sync_interval="20")
    view.says("applies at")
    assert view.milestones == standing
    is_accessible(page, ".tos-run")
    picture("paused")

    view.press("unpause")
    view.becomes("running")
    view.reaches(standing + 20)

    view.steer(combiner="easgd")
    view.says("in force: swap combiner")

    view.steer(partitions="3")
    page.keyboard.press("Escape")
    view.part("workers").locator("tbody tr").nth(2).wait_for()
    picture("three-partitions")

    seen = view.milestones
    execute(page, "docmanager:save")
    page.reload()
    view.reaches(seen + 20)
    view.part("loss-chart").locator("canvas").first.wait_for()
    expect(view.part("pause")).to_be_enabled()
    picture("reloaded")

    view.stop()
    view.becomes("stopped")
    picture("stopped")


def looks_closer(page: Any, view: View) -> None:
    """Drag over a part of the loss, read it in both charts, and return to all of it."""
    # This stays where it is when a chart of few points loses its dots, and is drawn from nothing.
    box = view.part("loss-chart").locator(".tos-plot").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.2 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=4)
    page.mouse.up()
    view.part("live").wait_for()
    # One cursor in both charts, where the pointer is over one of them.
    lines = view.root.locator(".u-cursor-x")
    for line in lines.all():
        expect(line).not_to_have_attribute("style", re.compile("-10px"))
    view.part("live").click()
    view.part("live").wait_for(state="hidden")
    hide = view.part("loss-chart").locator(".tos-curve")
    hide.click()
    expect(hide).to_have_attribute("aria-pressed", "false")
    hide.click()
    expect(hide).to_have_attribute("aria-pressed", "true")


def fills_the_screen(page: Any, view: View) -> None:
    """Give the view the whole screen: its charts grow; leave: all is as before."""
    before = view.frame
    view.part("whole").click()
    page.wait_for_function("() => document.fullscreenElement")
    full = page.viewport_size["height"]
    page.wait_for_function(
        """([view, full]) => {
            const end = view.querySelector('[data-tos="workers"]').getBoundingClientRect().bottom;
            return full - 40 < end && end <= full && view.scrollHeight <= full;
        }""",
        arg=[view.root.element_handle(), full],
    )
    # A browser without a window does not end it at Escape.
    page.evaluate("() => document.exitFullscreen()")
    page.wait_for_function("() => !document.fullscreenElement")
    expect(view.part("whole")).to_be_focused()
    page.wait_for_function(
        f"([view, before]) => String(({FRAME})(view)) === String(before)",
        arg=[view.root.element_handle(), before],
    )


def goes_through_by_keyboard(page: Any, view: View) -> None:
    """Reach all parts in the order in which they are seen, and leave at either end."""
    execute(page, "apputils:change-theme", theme="JupyterLab Dark")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", "JupyterLab Dark")
    assert view.root.evaluate(GROUND)
    execute(page, "apputils:change-theme", theme="JupyterLab Light")
    view.part("steer").click()
    field = view.part("sync-interval").locator("input")
    field.fill("15")
    field.press("Enter")
    view.says("Exchange every")
    page.keyboard.press("Escape")
    expect(view.part("steer")).to_be_focused()
    expect(view.part("apply")).to_be_hidden()
    page.keyboard.press("Shift+Tab")
    seen = [view.root.evaluate(FOCUSED)]
    while seen[-1] is not None:
        assert len(seen) < 60, seen
        page.keyboard.press("Tab")
        seen.append(view.root.evaluate(FOCUSED))
    order = ["pause", "steer", "stop", "whole", "axis", "smoothing", "log-scale", "outliers"]
    seen = [part for part in seen if part != "more"]
    assert seen[: len(order)] == order, seen
    rest = seen[len(order) :]
    parts = ["tos-plot", "workers", "tos-scroll"]
    assert sorted(parts, key=rest.index) == parts, seen
    view.part("pause").focus()
    page.keyboard.press("Shift+Tab")
    assert view.root.evaluate(FOCUSED) is None
