"""A TensorFlow cluster in JupyterLab: its view, the panel and the status bar."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.browser.lab import Lab, execute, expect, open_notebook, run_cells, save

CONNECT = """
%load_ext tos_notebook
%tos_connect local[2]
"""
RUNS = """
%%tos_cluster --workers 1 --ps 1
def main(args, ctx):
    import time
    print("I am", ctx.job_name)
    time.sleep(600)
"""
FAILS = """
%%tos_cluster --workers 1
def main(args, ctx):
    raise ValueError("mine")
"""
VIEW = ".tos-cluster"


def state(page: Any, wanted: str) -> Any:
    """Wait until a cluster's view shows a state; return the view."""
    view = page.locator(f'{VIEW}[data-state="{wanted}"]').first
    view.wait_for()
    return view


def saved_output(path: Path, cell: int) -> dict[str, Any]:
    """Return what a saved notebook shows of a cell, by MIME types."""
    outputs = json.loads(path.read_text())["cells"][cell]["outputs"]
    (data,) = [each["data"] for each in outputs if "data" in each]
    return dict(data)


def test_a_cluster_is_watched_reloaded_and_stopped_and_the_next_ones_error_is_saved(
    page: Any, lab: Lab, picture: Callable[[str], None]
) -> None:
    path = open_notebook(page, lab, "nodes", CONNECT, RUNS, FAILS, "print(6 * 7, cluster.state)")
    run_cells(page, 0, 1)
    view = state(page, "running")
    table = view.get_by_role("table", name="Nodes of the cluster")
    expect(table.get_by_role("row")).to_have_count(3)
    view.get_by_role("log", name="Last lines of worker:0").get_by_text("I am worker").wait_for()
    item = page.locator(".tos-lab-status")
    expect(item).to_contain_text("cluster 1 · running · 2/2 nodes run")
    execute(page, "tos-notebook:open-panel")
    clusters = page.get_by_role("list", name="TensorFlow clusters, newest first")
    expect(clusters).to_contain_text("Cluster 1")
    picture("running")

    save(page)
    page.reload()
    view = state(page, "running")
    expect(page.locator(".tos-lab-status")).to_contain_text("cluster 1 · running")
    view.get_by_role("button", name="Stop").click()
    view.locator('[data-tos="stop"][data-armed="now"]').click()
    expect(page.locator(".tos-lab-status")).to_contain_text("cluster 1 · stopped")
    # The end is in the notebook, though JupyterLab has forgotten whose output it is.
    page.locator('.jp-OutputArea .tos-result[data-state="stopped"]').wait_for()
    picture("stopped")
    save(page)
    data = saved_output(path, 1)
    assert data.keys() == {"text/html", "text/plain"}
    text = "".join(data["text/plain"])
    assert text.startswith("TensorFlow cluster 1: stopped, 2 nodes")
    assert "I am worker" in text

    # An error names the user's own line, and the kernel goes on.
    run_cells(page, 2)
    alert = page.locator('.jp-OutputArea .tos-result[data-state="failed"]').get_by_role("alert")
    expect(alert).to_contain_text("ValueError: mine")
    expect(alert).to_contain_text("line 3, in main")
    picture("failed")
    run_cells(page, 3)
    page.locator(".jp-OutputArea-output").get_by_text("42 failed").wait_for()
    save(page)
    assert "ValueError: mine" in "".join(saved_output(path, 2)["text/plain"])
