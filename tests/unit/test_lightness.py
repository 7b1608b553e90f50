"""Executors import the package long before they need TensorFlow, and never need IPython."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "tensorflow", "keras", "IPython", "ipywidgets", "pyspark", "pandas", "plotly", "cryptography",
    "mlflow",
}  # fmt: skip
ROOT = Path(__file__).parents[2]


def loaded_after(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter and return the top-level modules it has loaded."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import tos_notebook.worker.task, tos_notebook.strategies.ps.exchange",
        "import tos_notebook.transport.dial, tos_notebook.transport.listener",
        "import tos_notebook.telemetry.history, tos_notebook.telemetry.progress",
        "import tos_notebook.telemetry.report, tos_notebook.telemetry.bus",
    ],
    ids=["worker", "sockets", "history", "report"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement: str) -> None:
    assert loaded_after(statement) & HEAVY == set()


def test_the_extension_is_loaded_before_tensorflow() -> None:
    """The first cell of a notebook takes no seconds: what trains is imported where it is used."""
    loaded = loaded_after(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance().run_line_magic('load_ext', 'tos_notebook')"
    )
    assert "tos_notebook" in loaded
    assert loaded & {"tensorflow", "keras", "pandas", "plotly", "cryptography"} == set()


def test_a_heavy_module_would_be_noticed() -> None:
    assert loaded_after("import plotly") & HEAVY == {"plotly"}
