"""A real JupyterLab, a real kernel with a real Spark, and Chromium.

Screenshots go to the folder that TOS_SCREENSHOTS names, if it does.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab server: its address, token included, and its folder."""
    folder = tmp_path_factory.mktemp("lab")
    token = secrets.token_hex(16)
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
        "JUPYTER_RUNTIME_DIR": str(folder / ".runtime"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYTHONUNBUFFERED": "1",
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
    }
    command += [f"--{name}={value}" for name, value in options.items()]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as server:
        assert server.stderr is not None
        try:
            yield _address(server.stderr, token), folder
        finally:
            server.terminate()
            # It logs until it ends; a full pipe would keep it from ending.
            server.communicate(timeout=30)


def _address(lines: Any, token: str) -> str:
    seen = []
    for line in lines:
        seen.append(line)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/lab\?token=", line)
        if found:
            return f"http://127.0.0.1:{found[1]}/lab/workspaces/{{name}}/tree/{{name}}.ipynb?token={token}"
    raise AssertionError("JupyterLab did not start:\n" + "".join(seen))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser."""
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, lab: tuple[str, Path]) -> Iterator[Any]:
    """A page that fails the test if a script in it raises; its kernels end with it."""
    context = chromium.new_context(viewport={"width": 1200, "height": 1000})
    made = context.new_page()
    made.set_default_timeout(LIMIT)
    errors: list[str] = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    yield made
    server, _, query = lab[0].partition("/lab/")
    token = query.partition("?")[2]
    for kernel in made.request.get(f"{server}/api/kernels?{token}").json():
        made.request.delete(f"{server}/api/kernels/{kernel['id']}?{token}")
    context.close()
    assert not errors


@pytest.fixture
def picture(page: Any) -> Callable[[str], None]:
    """Take a screenshot, if somebody wants it."""
    folder = os.environ.get("TOS_SCREENSHOTS")

    def take(name: str) -> None:
        if folder:
            page.screenshot(path=str(Path(folder, f"{name}.png")))

    return take
