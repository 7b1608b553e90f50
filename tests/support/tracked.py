"""A tracking store of MLflow in a folder, and what was logged there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def store(path: Path, patch: pytest.MonkeyPatch) -> Any:
    """Let MLflow log to a folder of its own; return a client to look into it."""
    patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    patch.delenv("MLFLOW_RUN_ID", raising=False)
    import mlflow

    patch.setattr(mlflow.tracking._tracking_service.utils, "_tracking_uri", None)
    mlflow.set_tracking_uri((path / "store").as_uri())
    return mlflow.MlflowClient()


def only_run(client: Any, experiment: str = "Default") -> Any:
    """Return the one run of an experiment."""
    (run,) = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return run


def curve(client: Any, run_id: str, name: str) -> list[tuple[int, float]]:
    """Return step and value of each point."""
    return [(m.step, m.value) for m in client.get_metric_history(run_id, name)]
