"""The cells of a notebook that connects to a Spark Connect server, wrongly at first."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from tos_notebook.cluster.remote import opening

CLASSIC = "CLASSIC"
"""The variable with the folder of a run that a session with a JVM has saved."""

TOKEN = "/;token=secret"

DATA = """
from sklearn.datasets import load_digits
from tests.integration.conftest import classifier
from tests.integration.connect_program import frame_of
digits, frame = load_digits(return_X_y=True), frame_of(spark)
"""

TRAIN = """%%tos_train --data digits --epochs 2 --batch-size 32 -o run
model = classifier()
"""

COUNTED = "run.wait(); print(run.state, run.history['samples'].sum())"

RESUMED = "resumed.wait(); print(resumed.state, *resumed.parameters()['total'])"


def wrong(mute: str) -> dict[str, str]:
    """Return wrong addresses."""
    return {
        "no host": "sc://",
        "no port": "sc://127.0.0.1:first",
        "unknown": f"sc://no-such-host.invalid:15002{TOKEN}",
        "nobody": f"sc://127.0.0.1:1{TOKEN}",
        "mute": f"{mute}{TOKEN}",
    }


def cells(address: str) -> dict[str, list[Any]]:
    """Run cells; return of each whether it succeeded, what stands below it, and its seconds.

    Parameters
    ----------
    address : str
        Of a server; the session stays open.
    """
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    found: dict[str, list[Any]] = {}

    def cell(name: str, text: str) -> None:
        began = time.monotonic()
        with capture_output() as captured:
            succeeded = shell.run_cell(text).success
        said = captured.stdout + captured.stderr
        found[name] = [succeeded, said, time.monotonic() - began]

    cell("loaded", "%load_ext tos_notebook")
    # As an import finds it that is not installed.
    sys.modules["grpc"] = None  # type: ignore[assignment]
    cell("no extra", f"%tos_connect {address}")
    del sys.modules["grpc"]
    opening.ANSWER = 1.0
    # It only listens: it never accepts a client.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, place in wrong(f"sc://127.0.0.1:{silent.getsockname()[1]}").items():
            cell(name, f"%tos_connect {place}")
    opening.ANSWER = 10.0
    cell("connected", f"%tos_connect {address}")
    cell("another", f"%tos_connect sc://127.0.0.1:1{TOKEN}")
    cell("data", DATA)
    cell("trained", TRAIN)
    cell("counted", COUNTED)
    cell("resumes", f"%tos_resume {os.environ[CLASSIC]} --data frame -o resumed")
    cell("resumed", RESUMED)
    return found
