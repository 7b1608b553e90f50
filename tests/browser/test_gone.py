"""What a notebook shows that the user does not trust yet, or whose run has to wait."""

from __future__ import annotations

import re
from typing import Any

import nbformat

from tests.browser.lab import (
    PICTURED,
    UNHURRIED,
    Lab,
    View,
    execute,
    expect,
    open_notebook,
    ready,
    run_cells,
    save,
)
from tests.browser.test_live_view import SETUP, TRAIN
from tests.browser.test_panel import OUTPUT, TAB, Panel, status_item

CELL = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell"

TRUSTED = "() => jupyterapp.shell.currentWidget.content.model.cells.get(1).trusted"
IMAGE = "image => image.complete && image.naturalWidth"

AGREED = """([view, output, ...others]) => {
    const [, epoch, loss] = view.textContent.match(/epoch (\\d+) of.*?loss (\\d[\\d.]*\\d)/) ?? [];
    const legend = view.querySelector('[data-tos="loss-chart"] .tos-curve-value').textContent;
    const printed = output.textContent;
    const same = ({ textContent: s }) => s.includes(` ${epoch}/`) && s.includes(`loss ${loss}`);
    return legend === loss && others.every(same)
        && printed.includes(`paused: epoch ${epoch} of`) && printed.includes(`, loss ${loss},`);
}"""
"""Whether the legend, what %tos_status printed, and others have the epoch and loss of a header."""

NARROW = {"width": 760, "height": 1000}
"""A window whose tabs are half as wide as a notebook, beside the panel."""

OFF = ":is(:disabled, [aria-disabled='true']):visible"


def show_to_others(page: Any, lab: Lab, name: str) -> None:
    """Open a notebook of a stopped run as a page does that does not trust it."""
    # Somebody else's file: this server has signed another one.
    theirs = nbformat.read(lab.folder / f"{name}.ipynb", as_version=4)
    theirs.cells[0].source += "\n# from somebody else"
    nbformat.write(theirs, lab.folder / "mailed.ipynb")
    # With the plug-in they have its charts, which move by the pointer, and no kernel.
    page.goto(lab.notebook("mailed"))
    ready(page)
    assert page.evaluate(TRUSTED) is False
    view = View(page)
    view.becomes("stopped")
    expect(view.part("loss-chart").locator("canvas").first).to_be_visible()
    # Without it they have the picture.
    with lab.without("tos-notebook"):
        page.goto(lab.notebook("mailed"))
        ready(page)
        sees_the_picture(page)


def sees_the_picture(page: Any) -> None:
    """Look at what is saved of a stopped run, where no plug-in draws it."""
    output = page.locator(CELL).nth(1).locator(".jp-OutputArea-child").last
    image = output.get_by_role("img", name=re.compile("^Training loss from"))
    expect(image).to_be_visible()
    assert image.evaluate(IMAGE) > 0
    first, *others = output.inner_text().strip().splitlines()
    assert re.fullmatch(r"Run 1( \(\w+\))?: stopped, epoch \d+ of 100000 in [\d:]+ · .+", first)
    # Numbers alone are the ticks of a picture that was taken apart.
    numbers = [line for line in others if re.fullmatch(r"[\d.,\s]*", line) and line.strip()]
    assert not numbers, numbers


def is_shown_in_a_narrow_tab(page: Any, panel: Panel) -> None:
    """Look at the tab of run 1, which has ended: it begins with its charts, and nothing is off."""
    before = page.viewport_size
    panel.button("Open run 1").click()
    tab = View(page, TAB)
    tab.becomes("stopped")
    page.set_viewport_size(NARROW)
    expect(tab.part("loss-chart").locator("canvas").first).to_be_visible()
    assert tab.root.bounding_box()["width"] < 500
    assert tab.frame[0] <= 150
    expect(tab.root.locator(OFF)).to_have_count(0)
    page.get_by_role("tab", name="Run 1").locator(".lm-TabBar-tabCloseIcon").click()
    page.set_viewport_size(before)


def test_a_second_training_cell_waits_in_its_view_and_others_see_the_first_as_picture_and_text(
    page: Any, lab: Lab
) -> None:
    open_notebook(page, lab, "two", SETUP + UNHURRIED, TRAIN, TRAIN, "%tos_status 1")
    cells = page.locator(CELL)
    execute(page, "tos-notebook:open-panel")
    panel = Panel(page, "two")
    run_cells(page, 0, 1)
    first = View(page)
    first.reaches(20)
    first.press("pause")
    first.becomes("paused")
    first.says("in force: pause")

    # All places show one moment of it.
    run_cells(page, 3)
    prompts = cells.locator(".jp-InputPrompt")
    expect(prompts.nth(3)).to_have_text("[3]:")
    printed = cells.nth(3).locator(OUTPUT)
    seen = [first.root, printed, status_item(page), panel.runs]
    page.wait_for_function(AGREED, arg=[one.element_handle() for one in seen])

    # While it is paused it keeps its slots and does not end, so nothing has waited for that.
    standing = first.milestones
    run_cells(page, 2, 3)
    expect(prompts.nth(2)).to_have_text("[4]:")
    expect(prompts.nth(3)).to_have_text("[5]:")
    # A view that is out of sight is not drawn.
    cells.nth(2).scroll_into_view_if_needed()
    place = cells.nth(2).locator(".tos-headline")
    expect(place).to_contain_text("run 1 holds both slots of local[2]")
    expect(cells.nth(2).locator("[data-milestones]")).to_have_attribute("data-milestones", "0")
    first.becomes("paused")
    assert first.milestones == standing

    # The panel says the same, and a run's tab opens beside that of another.
    expect(panel.runs.nth(0)).to_have_attribute("data-state", "queued")
    expect(panel.runs.nth(0)).to_contain_text("run 1 holds both slots of local[2]")
    expect(status_item(page)).to_have_text("run 2 · queued")
    bars = page.locator("#jp-main-dock-panel > .lm-TabBar")
    for number in (1, 2):
        panel.button(f"Open run {number}").click()
    expect(page.locator(TAB)).to_have_count(2)
    expect(bars).to_have_count(2)
    for name in ("Run 1", "Run 2"):
        tab = page.get_by_role("tab", name=name)
        tab.locator(".lm-TabBar-tabCloseIcon").click()
    expect(bars).to_have_count(1)

    first.stop()
    # The view stays, and its picture is what will be saved.
    first.becomes("stopped")
    page.wait_for_function(PICTURED)
    expect(first.part("loss-chart").locator("canvas").first).to_be_visible()
    second = cells.nth(2).locator("[data-milestones]")
    expect(second).to_have_attribute("data-state", "running")
    second.scroll_into_view_if_needed()
    expect(place).not_to_contain_text("run 1 holds")

    # The charts of one draw the other beside it.
    others = second.locator('[data-tos="others"]')
    others.click()
    second.get_by_role("checkbox", name="Run 1").check()
    page.keyboard.press("Escape")
    expect(others).to_have_text("+1 run")
    expect(second.locator('[data-tos="loss-chart"]').first).to_contain_text("Run 1")

    is_shown_in_a_narrow_tab(page, panel)

    # What is checked is compared in a cell of the notebook, and what has ended can go.
    for number in (1, 2):
        box = panel.runs.get_by_role("checkbox", name=f"Compare run {number}")
        expect(box).to_be_enabled()
        box.check()
    panel.section.get_by_role("button", name="Compare 2 runs").click()
    expect(cells.filter(has_text="%tos_compare 1 2")).to_have_count(1)
    panel.button("Remove run 1").click()
    expect(panel.runs).to_have_count(1)

    save(page)
    lab.end_kernels(page)
    show_to_others(page, lab, "two")
