"""Asynchronous, steerable training of TensorFlow models on Spark, from a notebook.

Importing the package is cheap: TensorFlow, pyspark, pandas and plotly are loaded by what
needs them, when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import combiners, errors, events
    from .cluster.connect import connect
    from .program.capture import capture
    from .run import Run
    from .session import TrainingSession, runs
    from .telemetry.compare import compare
    from .widgets import view

_HOMES = {
    "Run": ".run",
    "TrainingSession": ".session",
    "capture": ".program.capture",
    "combiners": "",
    "compare": ".telemetry.compare",
    "connect": ".cluster.connect",
    "errors": "",
    "events": "",
    "load_ipython_extension": ".magics",
    "runs": ".session",
    "view": ".widgets",
    "unload_ipython_extension": ".magics",
}

__all__ = [
    "Run",
    "TrainingSession",
    "__version__",
    "capture",
    "combiners",
    "compare",
    "connect",
    "errors",
    "events",
    "runs",
    "view",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    if not home:
        return importlib.import_module(f".{name}", __name__)
    return getattr(importlib.import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
