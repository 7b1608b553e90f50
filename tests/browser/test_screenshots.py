"""The command that takes the pictures of docs/tutorial/what-you-see.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.lab import CHROMIUM
from tests.docs.pages import DOCS, ROOT


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium")
def test_one_command_takes_the_pictures_of_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.browser.screenshots", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (DOCS / "tutorial/pictures").iterdir()
    }
