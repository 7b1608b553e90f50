"""Asynchronous, steerable training of TensorFlow models on Spark, from a notebook.

Importing the package is cheap: TensorFlow, pyspark, pandas and plotly are loaded by what
needs them, when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import chaos, codecs, combiners, errors, events, layers, ml, strategies, testing, theory
    from .blocks import partitioners
    from .cluster.connect import connect
    from .data.dataframe import columns
    from .data.records import tfrecords
    from .nodes.servers import tensorflow_cluster
    from .program.capture import capture
    from .program.keras.adapt import adapt
    from .program.saved_models import load_model
    from .scripts import run_script
    from .steering import conditions
    from .surface import fit
    from .telemetry.compare import compare
    from .telemetry.mlflow import MLflow
    from .training.federated import federated
    from .training.observers.tensorboard import read_events
    from .training.resume import resume
    from .training.run import Run
    from .training.saved import runs
    from .training.session import TrainingSession
    from .widgets import view

_HOMES = {
    "MLflow": ".telemetry.mlflow",
    "Run": ".training.run",
    "TrainingSession": ".training.session",
    "adapt": ".program.keras.adapt",
    "capture": ".program.capture",
    "columns": ".data.dataframe",
    "compare": ".telemetry.compare",
    "connect": ".cluster.connect",
    "federated": ".training.federated",
    "fit": ".surface",
    "load_ipython_extension": ".magics",
    "load_model": ".program.saved_models",
    "read_events": ".training.observers.tensorboard",
    "resume": ".training.resume",
    "run_script": ".scripts",
    "runs": ".training.saved",
    "view": ".widgets",
    "tensorflow_cluster": ".nodes.servers",
    "tfrecords": ".data.records",
    "unload_ipython_extension": ".magics",
}

_MODULES = {
    "chaos": ".chaos",
    "codecs": ".codecs",
    "combiners": ".combiners",
    "errors": ".errors",
    "events": ".events",
    "layers": ".layers",
    "ml": ".ml",
    "partitioners": ".blocks.partitioners",
    "conditions": ".steering.conditions",
    "strategies": ".strategies",
    "testing": ".testing",
    "theory": ".theory",
}

_HINTS = {
    "stop": " run.stop() ends a run; tos.conditions has rules by which it ends by itself.",
    "train": " tos.fit(model, data) trains a model.",
    "run": " tos.fit(model, data) trains a model; tos.runs() lists runs.",
}
"""What to use for names that one may guess."""

__all__ = [
    "MLflow",
    "Run",
    "TrainingSession",
    "__version__",
    "adapt",
    "capture",
    "chaos",
    "codecs",
    "columns",
    "combiners",
    "compare",
    "conditions",
    "connect",
    "errors",
    "events",
    "federated",
    "fit",
    "layers",
    "load_model",
    "ml",
    "partitioners",
    "read_events",
    "resume",
    "run_script",
    "runs",
    "strategies",
    "tensorflow_cluster",
    "testing",
    "tfrecords",
    "theory",
    "view",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name], __name__)
    if name not in _HOMES:
        from .common.checks import did_you_mean

        hint = _HINTS.get(name) or did_you_mean(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Tell ``jupyter labextension develop`` where the plug-in is; pip knows by setup.py."""
    return [{"src": "labextension", "dest": "tos-notebook"}]
