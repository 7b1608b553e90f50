"""``%tos_tensorboard``: TensorBoard on a run's event files, below the cell."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import sys
import tempfile
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..cluster.backend import spark_context
from ..cluster.files import is_local, local_path
from ..errors import ConfigError, TosError
from ..telemetry.tensorboard import require_tensorboard
from ..training.observers.tensorboard import mirror
from .steer import all_runs, find_run
from .text import say

PERIOD = 5.0
"""Seconds between two looks for what was added to files that are not local."""


def show(options: Namespace, namespace: Mapping[str, Any], spark: Callable[[], Any]) -> None:
    """Open TensorBoard on a folder: the one that was named, or a run's.

    Raises
    ------
    ConfigError
        The run writes no event files, or the package `tensorboard` is not installed.
    """
    require_tensorboard()
    uri = options.uri or _folder_of(find_run(namespace, options.run))
    folder = local_path(uri) if is_local(uri) else _mirrored(spark_context(spark()), uri)
    _open(f"--logdir {shlex.quote(str(folder))} --reload_interval 5")


def _open(arguments: str) -> None:
    """Start TensorBoard, or show the one that serves this already; it ends with this process."""
    from tensorboard.notebook import start

    # The program that belongs to the package: a kernel's PATH need not lead to it.
    program = Path(sys.executable).with_name("tensorboard")
    if program.is_file():
        os.environ.setdefault("TENSORBOARD_BINARY", str(program))
    atexit.unregister(_end_all)
    atexit.register(_end_all)
    start(arguments)


def _end_all() -> None:
    from tensorboard import manager

    for found in manager.get_all():
        # One that was started elsewhere is not a child.
        with suppress(ChildProcessError, ProcessLookupError):
            if os.waitpid(found.pid, os.WNOHANG) == (0, 0):
                os.kill(found.pid, signal.SIGTERM)


def _folder_of(run: Any) -> str:
    if run.tensorboard is None:
        raise ConfigError(
            f"Run {run.number} writes no event files. Start it with --tensorboard URI, or name a "
            "folder: %tos_tensorboard URI"
        )
    return str(run.tensorboard)


def _mirrored(sc: Any, uri: str) -> Path:
    """Copy event files to this machine; those of an active run for as long as it trains."""
    folder = Path(tempfile.mkdtemp(prefix="tos-tensorboard-"))
    mirror(sc, uri, folder)
    writing = [run for run in all_runs() if run.active and run.tensorboard == uri]
    if writing:
        arguments = sc, uri, folder, writing[-1]
        threading.Thread(target=_follow, args=arguments, name="tos-mirror", daemon=True).start()
        say(f"{uri} is copied to {folder} every {PERIOD:g} s until the run has ended.")
    else:
        say(f"{uri} was copied to {folder}; repeat the magic to see what is added.")
    return folder


def _follow(sc: Any, uri: str, folder: Path, run: Any) -> None:
    while run.active:
        # How the run ends, or that it continues, is not for this thread to tell.
        with suppress(TosError):
            run.wait(PERIOD)
        mirror(sc, uri, folder)
