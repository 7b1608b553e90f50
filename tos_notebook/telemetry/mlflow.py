"""What goes to MLflow, by its own client."""

from __future__ import annotations

import importlib.util
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..readable import shortened

LONGEST = 500
"""Characters of a parameter's value: what every tracking store takes."""

LONGEST_KEY = 250
"""Characters of a metric's name, likewise."""

_REFUSED = re.compile(r"[^\w./ :-]")


@dataclass(frozen=True, slots=True)
class MLflow:
    """What of a run goes to MLflow, and where, for ``start(..., mlflow=...)``.

    The tracking server is MLflow's own choice: ``mlflow.set_tracking_uri`` or the environment's
    ``MLFLOW_TRACKING_URI``.

    Parameters
    ----------
    experiment : str, optional
        Its name; it is made if there is none. By default MLflow's current one.
    run_name : str, optional
        By default the run's id.
    tags : mapping of str to str
    model : {"keras", "savedmodel", "checkpoint", "numpy"}, optional
        The trained model goes there at the end, in this format, as `Run.save` writes it. Not by
        default.
    """

    experiment: str | None = None
    run_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None


class MLflowLog:
    """Writes to one MLflow run. To be used by one thread, of which it is the active run.

    Whatever the tracking server refuses raises an ``MlflowException``.

    Parameters
    ----------
    run_id : str or None
        Of the run to log into, which its owner ends; None to begin one.
    """

    def __init__(self, run_id: str | None) -> None:
        self.run_id = run_id
        self._owns = run_id is None
        self._client: Any = None
        # By the metrics' names: those that differ by what MLflow refuses have keys of their own.
        self._keys: dict[str, str] = {}

    def begin(self, experiment: str | None, run_name: str) -> None:
        """Connect, and begin the run if there is none."""
        import mlflow
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient()
        if not self._owns:
            return
        experiment_id = None
        if experiment is not None:
            known = self._client.get_experiment_by_name(experiment)
            found = known.experiment_id if known else self._client.create_experiment(experiment)
            experiment_id = str(found)
        run = mlflow.start_run(experiment_id=experiment_id, run_name=run_name)
        self.run_id = str(run.info.run_id)

    def params(self, values: Mapping[str, object]) -> None:
        """Write what does not change."""
        from mlflow.entities import Param

        found = [Param(name, str(value)[:LONGEST]) for name, value in values.items()]
        self._client.log_batch(self.run_id, params=found)

    def tags(self, values: Mapping[str, str]) -> None:
        """Write what describes the run."""
        from mlflow.entities import RunTag

        found = [RunTag(name, str(value)) for name, value in values.items()]
        self._client.log_batch(self.run_id, tags=found)

    def metrics(self, when: float, step: int, values: Mapping[str, float]) -> None:
        """Write a point of each curve; `when` in seconds since the epoch."""
        from mlflow.entities import Metric

        moment = int(1000 * when)
        found = [Metric(self._key(n), float(v), moment, step) for n, v in values.items()]
        self._client.log_batch(self.run_id, metrics=found)

    def _key(self, name: str) -> str:
        if name not in self._keys:
            key, number, others = _key(name), 1, set(self._keys.values())
            unique = key
            while unique in others:
                number += 1
                unique = f"{key[: LONGEST_KEY - 4]}_{number}"
            self._keys[name] = unique
        return self._keys[name]

    def artifacts(self, folder: Path) -> None:
        """Send all files of a folder."""
        self._client.log_artifacts(self.run_id, str(folder))

    def end(self, status: str) -> None:
        """End the run, if it was begun here.

        Parameters
        ----------
        status : {"FINISHED", "FAILED"}
        """
        if self._owns and self.run_id is not None:
            import mlflow

            mlflow.end_run(status)


def _key(name: str) -> str:
    """Return a metric's name with "_" for each character that MLflow refuses."""
    key = shortened(_REFUSED.sub("_", name), LONGEST_KEY).replace("…", "_")
    # To MLflow a name is a path below a folder, too.
    if posixpath.normpath(key) == key and not key.startswith((".", "/")):
        return key
    return f"_{key.replace('/', '_')}"[:LONGEST_KEY]


def require_mlflow() -> None:
    """Check that the package is there.

    Raises
    ------
    ConfigError
        It is not.
    """
    if importlib.util.find_spec("mlflow") is None:
        raise ConfigError(
            "mlflow: expected the package mlflow, which is not installed. Install it where this "
            "notebook runs: pip install mlflow-skinny. Executors do not need it."
        )


def active_run() -> str | None:
    """Return the id of the MLflow run that is active on this thread."""
    import mlflow

    active = mlflow.active_run()
    return None if active is None else str(active.info.run_id)
