"""The plug-in in JupyterLab: panel, tabs, status bar, marks, commands, used as a person would."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.lab import (
    PICTURED,
    SAVED_PICTURE,
    UNHURRIED,
    Lab,
    View,
    begin,
    execute,
    expect,
    is_accessible,
    layout_saved,
    open_notebook,
    ready,
    run_cells,
    save,
    write_notebook,
)

CONNECT = """
%load_ext tos_notebook
%tos_connect
"""
CONNECT += UNHURRIED
DATA = """
import numpy as np
x = np.random.default_rng(0).random((2000, 8), "float32")
y = (x.sum(1) > 4).astype("int64")
"""
PROCESS = "import os; print('process', os.getpid())"
MODEL = """
import keras
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2, "softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
"""
TRAIN = "%%tos_train --data x,y --epochs 100000 --batch-size 32 --sync-interval 10" + MODEL
CELL = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell"
TAB = "#jp-main-dock-panel .tos-lab-run-tab"
OUTPUT = ".jp-OutputArea"
WHOLE = "part => part.scrollHeight <= part.clientHeight + 1"
"""Whether no line of a text is cut off."""

Picture = Callable[[str], None]


class Panel:
    """What the side panel says of one notebook's kernel."""

    def __init__(self, page: Any, notebook: str) -> None:
        self.root = page.get_by_role("region", name="TensorOnSpark runs")
        self.section = self.root.get_by_role("region", name=f"{notebook}.ipynb")
        self.cluster = self.section.get_by_role("list", name="Cluster")
        self.runs = self.section.get_by_role("list", name="Runs").get_by_role("listitem")

    def button(self, name: str) -> Any:
        return self.runs.get_by_role("button", name=name)


def palette(page: Any) -> Any:
    """Return our commands in the palette, which shows those that can be used."""
    execute(page, "apputils:activate-command-palette")
    page.get_by_role("textbox", name="SEARCH").fill("TensorOnSpark")
    return page.locator(".lm-CommandPalette-item:visible")


def status_item(page: Any) -> Any:
    return page.locator(".tos-lab-status")


def is_lost(view: View) -> None:
    """Look at a view whose kernel is gone: it says so, and takes no command."""
    view.becomes("lost")
    expect(view.root.locator(".tos-state")).to_have_text("✕ lost")
    buttons = view.root.locator('.tos-buttons button, [data-tos="apply"]')
    for index in range(buttons.count()):
        expect(buttons.nth(index)).to_be_disabled()
    expect(view.root).to_contain_text("what it had shown")
    assert view.root.locator(".tos-told").evaluate(WHOLE)
    expect(view.root.locator(".tos-headline")).not_to_contain_text(" left")


def is_saved_as_lost(path: Path) -> None:
    """Look at what is saved of the cell whose kernel is gone: it says until when it holds."""
    outputs = nbformat.read(path, as_version=4).cells[3].outputs
    html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert '<img src="data:image/svg+xml' in html
    assert "while it was still active" in html


def kill(page: Any) -> None:
    """Kill the notebook's kernel, as a machine does that has no memory left."""
    text = page.locator(CELL).nth(0).locator(OUTPUT).inner_text()
    os.kill(int(re.search(r"process (\d+)", text)[1]), signal.SIGKILL)  # type: ignore[index]
    # JupyterLab says so, and starts another.
    page.get_by_role("dialog").get_by_role("button", name="Ok").click()


def test_panel_status_bar_and_cell_follow_a_run_and_steer_it_while_another_cell_runs(
    page: Any, lab: Lab, picture: Picture
) -> None:
    """Each place shows the run; the panel's buttons, by keyboard, act before a busy cell ends."""
    busy = "import time; print('asleep'); time.sleep(30)"
    open_notebook(page, lab, "one", CONNECT + DATA, TRAIN, busy)
    run_cells(page, 0, 1)
    page.get_by_role("button", name="Show the runs on Spark").click()
    panel = Panel(page, "one")

    # The cluster and the run.
    for fact in "local[2]", "1 executor", "2 cores":
        expect(panel.cluster.get_by_text(fact, exact=True)).to_be_visible()
    spark = panel.cluster.get_by_role("link", name="Spark UI")
    expect(spark).to_have_attribute("href", re.compile("^http://"))
    expect(panel.runs).to_contain_text(re.compile(r"epoch \d+/100000.*loss \d.* samples/s"))
    curve = panel.runs.get_by_role("img", name=re.compile(r"^Loss: began at \d"))
    expect(curve.locator("path")).to_have_attribute("d", re.compile("L.*L"))

    # The cell that started it, and no other.
    cell, last = page.locator(CELL).nth(1), page.locator(CELL).nth(2)
    word = cell.locator(".tos-lab-mark")
    expect(page.locator("[data-tos-state]")).to_have_count(1)
    expect(cell).to_have_attribute("data-tos-state", "running")
    expect(cell.get_by_role("progressbar", name="Progress of run 1")).to_be_visible()
    expect(word).to_have_text("training")

    # The status bar, whose click leads to that cell.
    item = status_item(page)
    form = r"run 1 \d+/100000 · (~[^·]+ · )?loss [\d.]+"
    expect(item).to_have_text(re.compile(f"^{form}$"))
    run_cells(page, 2)
    expect(last).to_contain_text("asleep")
    last.evaluate("cell => cell.scrollIntoView({ block: 'start' })")
    headline = cell.locator(".tos-headline")
    expect(headline).not_to_be_in_viewport()
    item.click()
    expect(headline).to_be_in_viewport()
    expect(cell).to_have_class(re.compile("jp-mod-active"))

    # By keyboard, while the kernel's main thread sleeps.
    execute(page, "tos-notebook:open-panel")
    expect(panel.root).to_be_focused()
    heading = panel.section.get_by_role("button", name="one.ipynb")
    choice = panel.runs.get_by_role("checkbox", name="Compare run 1")
    for control in heading, spark, choice, panel.button("Open run 1"), panel.button("Pause run 1"):
        page.keyboard.press("Tab")
        expect(control).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel.runs).to_have_attribute("data-state", "paused")
    assert last.locator(".jp-InputPrompt").inner_text() == "[*]:"
    expect(word).to_have_text("paused")
    expect(item).to_have_text(re.compile(r"^run 1 \d+/100000 · paused"))
    expect(panel.button("Unpause run 1")).to_be_focused()
    page.keyboard.press("Space")
    expect(panel.runs).to_have_attribute("data-state", "running")
    # An end is asked for twice, and here not the second time.
    page.keyboard.press("Tab")
    expect(panel.button("Stop run 1 and keep its weights")).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel.button("Click again to stop run 1")).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel.button("Stop run 1 and keep its weights")).to_be_focused()
    expect(panel.runs).to_have_attribute("data-state", "running")
    for _ in range(2):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    tab, own = View(page, TAB), View(page, OUTPUT)
    tab.reaches(1)
    for view in tab, own, tab, own:
        view.moves()

    for theme in "Dark", "Light":
        execute(page, "apputils:change-theme", theme=f"JupyterLab {theme}")
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", f"JupyterLab {theme}")
        tab.moves()
        is_accessible(page, "#tos-panel", ".tos-run", ".tos-lab-status")
        picture(f"panel-{theme.lower()}")

    # The tab needs no cell.
    execute(page, "notebook:clear-all-cell-outputs")
    expect(own.root).to_have_count(0)
    tab.moves()


@pytest.mark.long
def test_a_reload_while_a_cell_waits_for_its_run_brings_everything_back(
    page: Any, lab: Lab, picture: Picture
) -> None:
    """A kernel whose main shell is blocked is met again; the saved notebook gets its picture."""
    waiting = TRAIN.replace("%%tos_train", "%%tos_train --wait")
    after = "open('after', 'w').close()"
    look = "import os; print(os.path.exists('after'))"
    path = open_notebook(page, lab, "waits", CONNECT + DATA, waiting, after, look)
    run_cells(page, 0, 1, 2)
    own, tab, panel = View(page, OUTPUT), View(page, TAB), Panel(page, "waits")
    own.reaches(1)
    execute(page, "tos-notebook:open-panel")
    with layout_saved(page, '"current": "tos-panel"', "tos-notebook:run"):
        panel.button("Open run 1").click()
    tab.reaches(1)
    save(page)
    seen = tab.milestones

    page.reload()
    for view in own, tab:
        view.reaches(seen)
        view.moves()
    expect(panel.runs).to_have_attribute("data-state", "running")
    cell = page.locator(CELL).nth(1)
    expect(cell).to_have_attribute("data-tos-state", "running")
    expect(status_item(page)).to_have_text(re.compile(r"^run 1 \d+/100000 · "))
    assert not (lab.folder / "after").exists()
    picture("reloaded-in-mid-run")

    # A view that is out of sight is not drawn.
    own.root.scroll_into_view_if_needed()
    own.stop()
    tab.becomes("stopped")
    expect(panel.runs).to_have_attribute("data-state", "stopped")
    page.wait_for_function(PICTURED)
    save(page)
    cell.click()
    run_cells(page, 3)
    expect(page.locator(CELL).nth(3)).to_contain_text("True")
    outputs = nbformat.read(path, as_version=4).cells[1].outputs
    assert any(
        '<img src="data:image/svg+xml' in output.get("data", {}).get("text/html", "")
        for output in outputs
    )


def trained_by_commands(page: Any, lab: Lab, picture: Picture) -> tuple[Path, Panel]:
    """Train and steer by commands, from a notebook that knows nothing of Spark."""
    config = "%tos_config epochs=100000 sync_interval=10" + UNHURRIED
    path = open_notebook(page, lab, "commands", DATA + PROCESS, config, MODEL)
    dialog = page.get_by_role("dialog")

    # Connecting adds a cell.
    palette(page).filter(has_text="Connect to Spark").click()
    cells = page.locator(CELL)
    expect(cells.nth(1)).to_contain_text("%tos_connect")
    execute(page, "tos-notebook:open-panel")
    panel = Panel(page, "commands")
    expect(panel.cluster).to_contain_text("local[2]")
    expect(panel.section).to_contain_text("No run yet")

    # Training a cell asks for its data; the menu has it.
    run_cells(page, 0, 2)
    cells.nth(3).click()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-item").filter(has_text="TensorOnSpark").click()
    page.get_by_role("menuitem", name="Train This Cell").click()
    dialog.get_by_role("textbox").fill("x, y")
    dialog.get_by_role("button", name="Train").click()
    expect(cells.nth(3)).to_contain_text("%%tos_train --data x,y")
    own, tab = View(page, OUTPUT), View(page, TAB)
    own.reaches(1)

    begin(page, "tos-notebook:swap-combiner")
    dialog.get_by_role("combobox").select_option("easgd")
    picture("swap-combiner")
    dialog.get_by_role("button", name="Swap").click()
    expect(own.part("settings")).to_contain_text("easgd")
    begin(page, "tos-notebook:repartition")
    dialog.get_by_role("spinbutton").fill("3")
    dialog.get_by_role("button", name="Repartition").click()
    own.part("workers").locator("tbody tr").nth(2).wait_for()
    for key in "Control+Alt+y", "p":
        page.keyboard.press(key)
    own.becomes("paused")

    # The palette has everything that is of use now.
    shown = palette(page)
    for label in (
        "Train This Cell",
        "Unpause Training",
        "Stop and Keep Weights…",
        "Repartition…",
        "Swap Combiner…",
        "Swap Strategy…",
        "Show Runs on Spark",
        "Open Run in a Tab",
        "Go to the Cell of the Run",
        "New TensorOnSpark Notebook",
    ):
        expect(shown.filter(has_text=label)).to_be_visible()
    shown.filter(has_text="Open Run in a Tab").click()
    tab.becomes("paused")
    return path, panel


@pytest.mark.long
def test_a_kernel_that_is_restarted_leaves_what_was_seen_and_trains_again(
    page: Any, lab: Lab, picture: Picture
) -> None:
    path, panel = trained_by_commands(page, lab, picture)
    own, tab = View(page, OUTPUT), View(page, TAB)
    cells, dialog = page.locator(CELL), page.get_by_role("dialog")
    seen = tab.milestones
    cells.nth(3).click()
    page.get_by_role("button", name="Restart the kernel", exact=True).click()
    dialog.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(panel.section).to_contain_text("The kernel was restarted")
    expect(panel.runs).to_have_attribute("data-state", "lost")
    expect(page.locator(TAB)).to_contain_text("The kernel was restarted")
    assert tab.milestones == seen
    is_lost(own)
    save(page)
    is_saved_as_lost(path)
    picture("restarted")
    run_cells(page, 1, 0, 2, 3)
    expect(panel.runs).to_have_attribute("data-state", "running")
    expect(panel.section).not_to_contain_text("The kernel was restarted")
    expect(page.locator(TAB)).to_contain_text("The kernel was restarted")


def test_commands_connect_train_and_steer_and_a_kernel_that_dies_leaves_what_was_seen(
    page: Any, lab: Lab, picture: Picture
) -> None:
    """A page that opens its record says what became of the run."""
    path, panel = trained_by_commands(page, lab, picture)
    own = View(page, OUTPUT)
    page.locator(CELL).nth(3).click()
    own.press("unpause")
    own.reaches(20)
    page.wait_for_function(SAVED_PICTURE)
    kill(page)
    expect(panel.runs).to_have_attribute("data-state", "lost")
    is_lost(own)
    save(page)
    is_saved_as_lost(path)
    page.reload()
    ready(page)
    own.becomes("lost")
    expect(own.root).to_contain_text("The kernel of this run is gone")
    expect(own.part("loss-chart").locator("canvas").first).to_be_visible()
    assert own.milestones >= 20
    pause = own.root.get_by_role("button", name="Pause")
    assert pause.count() == 0 or pause.first.is_disabled()


@pytest.mark.long
def test_each_notebook_has_its_own_kernel_in_the_panel_and_the_one_in_front_is_meant(
    page: Any, lab: Lab, picture: Picture
) -> None:
    """Status bar and commands follow the notebook in front; the other goes on."""
    first = CONNECT + DATA, TRAIN
    second = CONNECT + DATA, TRAIN.replace("100000", "90000")
    write_notebook(lab, "second", *second)
    open_notebook(page, lab, "first", *first)
    run_cells(page, 0)
    execute(page, "docmanager:open", path="second.ipynb", options={"mode": "split-right"})
    ready(page)
    run_cells(page, 0, 1)
    execute(page, "tos-notebook:open-panel")
    one, two = Panel(page, "first"), Panel(page, "second")
    item = status_item(page)
    expect(item).to_contain_text("/90000 ")
    expect(two.runs).to_have_attribute("data-state", "running")
    execute(page, "tos-notebook:pause-unpause")
    expect(two.runs).to_have_attribute("data-state", "paused")
    expect(item).to_contain_text("paused")

    page.get_by_role("tab", name="first.ipynb").click()
    expect(item).to_be_hidden()
    run_cells(page, 1)
    expect(item).to_contain_text("/100000 ")
    expect(one.runs).to_have_attribute("data-state", "running")
    expect(item).not_to_contain_text("paused")
    picture("two-notebooks")

    page.get_by_role("tab", name="second.ipynb").click()
    expect(item).to_contain_text("/90000 ")
    execute(page, "tos-notebook:pause-unpause")
    expect(two.runs).to_have_attribute("data-state", "running")
    page.get_by_role("tab", name="first.ipynb").click()
    begin(page, "tos-notebook:stop")
    question = page.get_by_role("dialog")
    question.get_by_role("button", name="Cancel").click()
    expect(one.runs).to_have_attribute("data-state", "running")
    begin(page, "tos-notebook:stop")
    question.get_by_role("button", name="Stop").click()
    expect(one.runs).to_have_attribute("data-state", "stopped")
    expect(two.runs).to_have_attribute("data-state", "running")


def test_the_launcher_makes_a_first_notebook(page: Any, lab: Lab, picture: Picture) -> None:
    """One click leads from an empty JupyterLab to cells that train."""
    page.goto(f"{lab.address}/lab/workspaces/launcher?token={lab.token}")
    card = page.locator(".jp-LauncherCard").filter(has_text="TensorOnSpark notebook")
    card.wait_for()
    picture("launcher")
    card.click()
    cells = page.locator(CELL)
    expect(cells.filter(has_text="%tos_connect").first).to_be_attached()
    expect(cells.filter(has_text="%%tos_train").first).to_be_attached()
    ready(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    (path,) = lab.folder.glob("Untitled*.ipynb")
    expect(cells).to_have_count(len(nbformat.read(path, as_version=4).cells))
    picture("first-notebook")
