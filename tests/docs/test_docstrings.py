"""What the reference shows, and every protocol, says what it takes, returns and raises."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs.pages import ROOT


def test_public_docstrings_are_complete() -> None:
    program = [sys.executable, "-m", "tests.docs.docstrings_program"]
    found = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert re.fullmatch(r"\d{3} docstrings\n", found.stdout), found.stdout + found.stderr[-2000:]
