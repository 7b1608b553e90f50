"""nbval runs the notebooks in fresh kernels, and compares what does not vary."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.long import few

ROOT = Path(__file__).parents[2]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=240", "-p", "no:cacheprovider"]
FOLDER = ROOT / "notebooks"
ELSEWHERE = {"00_first_steps.ipynb"}
"""Executed, and compared, by tests/browser/test_first_notebook.py, which `make test` runs."""
COURSE = sorted({path.name for path in FOLDER.glob("*.ipynb")} - ELSEWHERE)
TIMEOUT = 600

SET = ("TOS_DIRECTORY", "TOS_MASTER", "TOS_MNIST_DIR", "TOS_NONINTERACTIVE")
"""What changes a notebook's outputs."""


def run_notebook(path: Path, **environ: str) -> None:
    inherited = {k: v for k, v in os.environ.items() if k not in SET}
    done = subprocess.run(
        [*PYTEST, *NBVAL, path],
        cwd=ROOT,
        env=inherited | {"TOS_NONINTERACTIVE": "1"} | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", few(COURSE))
def test_it_runs_top_to_bottom_and_shows_what_it_showed(name: str) -> None:
    """On this machine, whatever cluster the environment names."""
    run_notebook(FOLDER / name)
