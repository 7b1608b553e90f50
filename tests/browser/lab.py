"""A real JupyterLab, Chromium, and what a person does with them."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import nbformat

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]
LIMIT = 180_000
"""Milliseconds that a page may take for anything."""

UNHURRIED = """
import tos_notebook as tos
from tos_notebook.training.factory import watchers
watchers.append(lambda run: run.chaos(tos.chaos.Pause(0.05, any=9)))
"""
"""Lets the workers of a kernel's runs wait in each milestone, and leave the cores to the page."""

SPLASH = "@jupyterlab/apputils-extension:splash"
"""JupyterLab's own: where it is hidden twice within 200 ms, it removes itself twice and raises."""

NOTEBOOK_7 = "/static/notebook/notebook_core"
"""Jupyter Notebook's own script, which now and then raises while settings load."""

READY = """async () => {
    const context = window.jupyterapp.shell.currentWidget.sessionContext;
    await context.ready;
    await context.session.kernel.info;
}"""
"""The kernel answers: before that, running cells may come to nothing."""

PICTURED = """() => {
    const { model } = jupyterapp.shell.currentWidget.content;
    const html = model.cells.get(1).outputs.toJSON().map(one => one.data?.['text/html'] ?? '');
    return html.some(one => one.includes('<img src="data:image/svg+xml') && /stopped/.test(one));
}"""
"""Whether the picture of the stopped run would be saved."""

SAVED_PICTURE = """() => {
    const { model } = jupyterapp.shell.currentWidget.content;
    const html = model.cells.get(3).outputs.toJSON().map(one => one.data?.['text/html'] ?? '');
    return html.some(one => one.includes('<img src="data:image/svg+xml'));
}"""
"""Whether what would be saved of the fourth cell has a curve."""

FRAME = """view => {
    const { top, height } = view.getBoundingClientRect();
    const plot = view.querySelector('.tos-plot').getBoundingClientRect();
    return [Math.round(plot.top - top), Math.round(height)];
}"""
"""Pixels from the view's top to its first curve, and of its height."""


@dataclass(frozen=True)
class Lab:
    """A server.

    Parameters
    ----------
    address : str
        With scheme and port.
    token : str
    folder : Path
        Its notebooks'.
    """

    address: str
    token: str
    folder: Path

    def notebook(self, name: str) -> str:
        """Return where a notebook opens.

        In a workspace of its own: another's would open the notebooks that were left there.
        """
        path = f"lab/workspaces/{name}/tree/{name}.ipynb"
        return f"{self.address}/{path}?token={self.token}"

    def in_notebook_7(self, name: str) -> str:
        """Return where Jupyter Notebook opens a notebook, on the same server."""
        return f"{self.address}/notebooks/{name}.ipynb?token={self.token}"

    @contextmanager
    def without(self, *extensions: str) -> Iterator[None]:
        """Let pages that open meanwhile go without extensions of the front end."""
        self._disable(*extensions)
        try:
            yield
        finally:
            self._disable()

    def _disable(self, *extensions: str) -> None:
        # The server reads the file again for each page.
        config = self.folder / ".config/labconfig/page_config.json"
        config.parent.mkdir(exist_ok=True)
        disabled = dict.fromkeys((SPLASH, *extensions), True)
        config.write_text(json.dumps({"disabledExtensions": disabled}))

    def end_kernels(self, page: Any) -> None:
        """End all kernels."""
        url, query = f"{self.address}/api/kernels", f"token={self.token}"
        for kernel in page.request.get(f"{url}?{query}").json():
            page.request.delete(f"{url}/{kernel['id']}?{query}")


@contextmanager
def started_lab(folder: Path) -> Iterator[Lab]:
    """Start a server on a folder, with no configuration but its own."""
    token = secrets.token_hex(16)
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
        "JUPYTER_RUNTIME_DIR": str(folder / ".runtime"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYTHONUNBUFFERED": "1",
        "SPARK_MASTER": "local[2]",
    }
    environment.pop("TOS_NONINTERACTIVE", None)
    news = folder / ".config/lab/user-settings/@jupyterlab/apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    options = {
        "IdentityProvider.token": token,
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": "0",
        "ServerApp.root_dir": str(folder),
        "LabApp.expose_app_in_browser": "True",
        "JupyterNotebookApp.expose_app_in_browser": "True",
    }
    command += [f"--{name}={value}" for name, value in options.items()]
    # Not a pipe: it is not read later, and a server stands still at a full one.
    log = folder / ".jupyter.log"
    with (
        log.open("w") as stream,
        subprocess.Popen(command, env=environment, stderr=stream, cwd=folder) as server,
    ):
        try:
            lab = Lab(_address(server, log), token, folder)
            with lab.without():
                yield lab
        finally:
            end(server)


def end(server: subprocess.Popen[bytes]) -> None:
    """End a server, which now and then waits at its end for a thread of its own that waits, too."""
    server.terminate()
    try:
        server.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.kill()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    end = monotonic() + LIMIT / 1000
    while server.poll() is None and monotonic() < end:
        found = re.search(r"(http://127\.0\.0\.1:\d+)/lab\?token=", log.read_text())
        if found:
            return found[1]
        # The server does not tell when it has written a line.
        sleep(0.02)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()}")


@contextmanager
def started_chromium() -> Iterator[Any]:
    """Start a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@contextmanager
def started() -> Iterator[tuple[Lab, Any]]:
    """Start both for a program of its own, in a folder that is deleted at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        started_lab(Path(folder)) as lab,
        started_chromium() as browser,
    ):
        yield lab, browser


@contextmanager
def opened_page(browser: Any, lab: Lab) -> Iterator[Any]:
    """Open a page, which raises at its end if a script in it did; its kernels end with it."""
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    errors: list[str] = []

    def note(error: Any) -> None:
        stack = error.stack or str(error)
        # The first line is the message, the second where it was raised.
        if NOTEBOOK_7 not in "".join(stack.splitlines()[1:2]):
            errors.append(stack)

    page.on("pageerror", note)
    try:
        yield page
    finally:
        lab.end_kernels(page)
        context.close()
    assert not errors, "\n".join(errors)


@contextmanager
def layout_saved(page: Any, *names: str) -> Iterator[None]:
    """Wait at the end until JupyterLab has saved a layout that has all these names in it."""

    def fits(response: Any) -> bool:
        request = response.request
        if request.method != "PUT" or "/api/workspaces/" not in request.url:
            return False
        layout = json.dumps(request.post_data_json["data"].get("layout-restorer:data"))
        return all(name in layout for name in names)

    with page.expect_response(fits):
        yield


def expect(locator: Any) -> Any:
    """Return playwright's assertions, which wait as long as a page may take."""
    from playwright.sync_api import expect

    expect.set_options(timeout=LIMIT)
    return expect(locator)


def is_accessible(page: Any, *parts: str) -> None:
    """Let axe look at parts of a page, by their selectors: it finds nothing above minor."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, {"include": [[part] for part in parts]}).response["violations"]
    grave = [each for each in found if each["impact"] not in (None, "minor")]
    told = [
        f"{each['id']}, {each['impact']}: {node['html'][:300]} {node['failureSummary']}"
        for each in grave
        for node in each["nodes"][:3]
    ]
    assert not told, "\n".join(told)


def execute(page: Any, command: str, **arguments: Any) -> None:
    """Run one of JupyterLab's commands."""
    page.evaluate("([name, args]) => jupyterapp.commands.execute(name, args)", [command, arguments])


def begin(page: Any, command: str, **arguments: Any) -> None:
    """Run one of JupyterLab's commands, and do not wait for it."""
    script = "([name, args]) => void jupyterapp.commands.execute(name, args)"
    page.evaluate(script, [command, arguments])


def write_notebook(lab: Lab, name: str, *cells: str) -> Path:
    """Write a notebook; return its path."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c.strip()) for c in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    path = lab.folder / f"{name}.ipynb"
    nbformat.write(made, path)
    return path


def open_notebook(page: Any, lab: Lab, name: str, *cells: str) -> Path:
    """Write a notebook and open it; return its path once its kernel answers."""
    path = write_notebook(lab, name, *cells)
    page.goto(lab.notebook(name))
    ready(page)
    return path


def ready(page: Any) -> None:
    """Wait for the kernel of the notebook in front."""
    page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
    page.evaluate(READY)


def save(page: Any) -> None:
    """Save the page's first notebook, and wait until that is done."""
    page.evaluate(
        "() => [...jupyterapp.shell.widgets('main')].find(w => w.sessionContext).context.save()"
    )


def run_cells(page: Any, *indices: int) -> None:
    """Have cells of the notebook in front run, and do not wait for them."""
    page.evaluate(
        """indices => {
            const { content } = jupyterapp.shell.currentWidget;
            for (const index of indices) {
                content.deselectAll();
                content.activeCellIndex = index;
                void jupyterapp.commands.execute('notebook:run-cell');
            }
        }""",
        indices,
    )


class View:
    """The live view on a page.

    Parameters
    ----------
    page : Page
    place : str, optional
        Selects what the view is in.
    """

    def __init__(self, page: Any, place: str = "") -> None:
        self.page = page
        self._selector = f"{place} [data-milestones]"
        self.root = page.locator(self._selector).first

    def part(self, name: str) -> Any:
        return self.root.locator(f'[data-tos="{name}"]').first

    def steer(self, **values: str) -> None:
        """Put values into fields, by their names, and apply them all."""
        if self.part("steer").get_attribute("aria-expanded") == "false":
            self.part("steer").click()
        for name, value in values.items():
            field = self.part(name.replace("_", "-")).locator("input, select")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        self.part("apply").click()

    def says(self, text: str) -> None:
        """Wait until the line of what became of commands has a text."""
        self.root.locator(".tos-told").get_by_text(text).wait_for()

    def press(self, name: str) -> None:
        """Press pause or unpause, once the button takes a click for that."""
        self.root.locator(f'[data-tos="{name}"]:not([data-fresh])').click()

    def stop(self) -> None:
        """Press stop, and say yes once the button takes a click for that."""
        self.part("stop").click()
        self.root.locator('[data-tos="stop"][data-armed="now"]').click()

    @property
    def frame(self) -> list[int]:
        """How far below the view's top the first curve begins, and how high the view is."""
        found: list[int] = self.root.evaluate(FRAME)
        return found

    @property
    def milestones(self) -> int:
        return int(self.root.get_attribute("data-milestones"))

    def reaches(self, milestones: int) -> None:
        self.page.wait_for_function(
            "([view, n]) => Number(document.querySelector(view)?.dataset.milestones) >= n",
            arg=[self._selector, milestones],
        )

    def moves(self) -> None:
        self.reaches(self.milestones + 1)

    def becomes(self, state: str) -> None:
        self.page.wait_for_function(
            "([view, s]) => document.querySelector(view)?.dataset.state === s",
            arg=[self._selector, state],
        )
