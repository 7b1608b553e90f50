"""What validation, schedules, conditions and MLflow cost: throughput with and without, in turns.

The 2NN of 199,210 parameters, exchanged every 10 batches; MLflow logs to a local folder. All 10,000
test images are evaluated after each epoch, on the core that one worker leaves the driver.

python -m benchmarks.throughput.observers [--quick]
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tos_notebook as tos

from ..lib.data import mnist
from ..lib.harness import Row, program
from .tensorboard import compare


def validating(folder: Path) -> dict[str, Any]:
    """Return the options of a run that evaluates the test images after each epoch."""
    return {"validation_data": mnist()[1]}


def steering(folder: Path) -> dict[str, Any]:
    """Return the options of a run whose rate changes as often as it may, and that may stop."""
    conditions = [tos.conditions.loss_below(0.0), tos.conditions.after(hours=1), "samples >= 1e12"]
    return {"learning_rate": lambda step: 0.1 * 0.99 ** (step / 10), "stop_when": conditions}


def logging(folder: Path) -> dict[str, Any]:
    """Return the options of a run in MLflow."""
    import mlflow

    # A database would need more than the client.
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    mlflow.set_tracking_uri((folder / "store").as_uri())
    return {"mlflow": True}


def run(quick: bool) -> list[Row]:
    """Measure all three."""
    rounds, epochs = (2, 5) if quick else (6, 10)
    return [
        compare("validation each epoch", validating, rounds, epochs, "local[1]", "< 5"),
        compare("a schedule and conditions", steering, rounds, epochs),
        compare("MLflow", logging, rounds, epochs),
    ]


if __name__ == "__main__":
    program(run, __doc__)
