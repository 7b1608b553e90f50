"""nbval runs the notebooks in fresh kernels, and compares what does not vary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=240", "-p", "no:cacheprovider"]
FIRST, PROGRAM = "00_first_steps.ipynb", "01_tensoronspark_mnist.ipynb"
TIMEOUT = 600


def run_notebook(path: Path, **environment: str) -> None:
    inherited = {k: v for k, v in os.environ.items() if k != "TOS_NONINTERACTIVE"}
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


def test_the_first_runs_top_to_bottom() -> None:
    run_notebook(ROOT / "notebooks" / FIRST)


def test_the_program_of_2016_runs_top_to_bottom_without_mnist(tmp_path: Path) -> None:
    """As on Binder; `tests/tensorspark` has the same program train on MNIST."""
    folder = tmp_path / "elsewhere" / "notebooks"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / PROGRAM, folder)
    run_notebook(folder / PROGRAM, TOS_MNIST_DIR="")
