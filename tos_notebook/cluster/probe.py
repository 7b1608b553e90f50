"""What runs in a worker to report on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .reach import ReachabilityProbe


def make_probe(
    names: Sequence[str], cores: int, reach: ReachabilityProbe | None = None
) -> Callable[[Iterable[Any]], Any]:
    """Return a function for `mapPartitions` that reports on the worker it runs in.

    A closure, because those are pickled by value: it must run where this package is missing.

    Parameters
    ----------
    names : sequence of str
        Packages to import.
    cores : int
        Threads TensorFlow may use.
    reach : ReachabilityProbe, optional
        What the worker is to reach.
    """
    knock, address = (reach.knock(), reach.address) if reach else (lambda: "", "")

    def probe(_: Iterable[Any]) -> Iterator[dict[str, Any]]:
        import importlib
        import os
        import platform
        import socket
        import sys

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        packages, missing = {}, {}
        # TensorFlow's greeting, which no setting silences, would end in a notebook's cell.
        stderr, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        try:
            try:
                # It leaves out what TensorFlow would load on its own account.
                runner = importlib.import_module("tos_notebook.runtime.runner")
            except Exception:
                # Named below, one by one.
                runner = None
            for name in names:
                try:
                    packages[name] = str(getattr(importlib.import_module(name), "__version__", ""))
                except Exception as error:
                    missing[name] = f"{type(error).__name__}: {error}"
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            os.close(quiet)
        configure = getattr(runner, "configure_threads", None)
        if configure is not None:
            configure(cores)
        failure = knock()
        yield {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": packages,
            "missing": missing,
            "unreached": failure and f"{address} ({failure})",
        }

    return probe
