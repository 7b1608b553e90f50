"""nbval runs the notebooks in fresh kernels, and compares what does not vary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=240", "-p", "no:cacheprovider"]
FOLDER = ROOT / "notebooks"
PROGRAM = "01_tensoronspark_mnist.ipynb"
COURSE = sorted(path.name for path in FOLDER.glob("*.ipynb") if path.name != PROGRAM)
TIMEOUT = 600

SET = ("TOS_DIRECTORY", "TOS_MASTER", "TOS_NONINTERACTIVE")
"""What changes a notebook's outputs."""


def run_notebook(path: Path, **environment: str) -> None:
    inherited = {k: v for k, v in os.environ.items() if k not in SET}
    done = subprocess.run(
        [*PYTEST, *NBVAL, path],
        cwd=ROOT,
        env=inherited | {"TOS_NONINTERACTIVE": "1"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", COURSE)
def test_it_runs_top_to_bottom_and_shows_what_it_showed(name: str) -> None:
    """On this machine, whatever cluster the environment names."""
    run_notebook(FOLDER / name)


def test_the_program_of_2016_runs_top_to_bottom_without_mnist(tmp_path: Path) -> None:
    """As on Binder; `tests/tensorspark` has the same program train on MNIST."""
    folder = tmp_path / "elsewhere" / "notebooks"
    folder.mkdir(parents=True)
    shutil.copy(FOLDER / PROGRAM, folder)
    run_notebook(folder / PROGRAM, TOS_MNIST_DIR="")
