"""JupyterLab, Chromium and a page for the tests.

Screenshots go to the folder that TOS_SCREENSHOTS names, if it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import CHROMIUM, Lab, opened_page, started_chromium, started_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab server, one for all tests."""
    with started_lab(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser."""
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with started_chromium() as browser:
        yield browser


@pytest.fixture
def page(chromium: Any, lab: Lab) -> Iterator[Any]:
    """A page that fails the test if a script in it raises."""
    with opened_page(chromium, lab) as made:
        yield made


@pytest.fixture
def picture(page: Any) -> Callable[[str], None]:
    """Take a screenshot, if somebody wants it."""
    folder = os.environ.get("TOS_SCREENSHOTS")

    def take(name: str) -> None:
        if folder:
            page.screenshot(path=str(Path(folder, f"{name}.png")))

    return take
