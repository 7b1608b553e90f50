"""What event files and callbacks cost: throughput with and without them, in turns.

The 2NN of 199,210 parameters, exchanged every 10 batches; curves and histograms of all weights go
to a local folder.

python -m benchmarks.throughput.tensorboard [--quick]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import tos_notebook as tos

from ..lib.data import mnist
from ..lib.harness import Row, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, MASTER, measure, spark

Options = Callable[[Path], dict[str, Any]]


def event_files(folder: Path) -> dict[str, Any]:
    """Return the options of a run that writes event files."""
    return {"tensorboard": str(folder)}


def callbacks(folder: Path) -> dict[str, Any]:
    """Return the options of a run with callbacks that do something at each milestone and epoch."""
    from keras.callbacks import CSVLogger, LambdaCallback, TerminateOnNaN

    each = LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    return {"callbacks": [CSVLogger(folder / "log.csv"), TerminateOnNaN(), each]}


def compare(
    what: str,
    options: Options,
    rounds: int,
    epochs: int,
    master: str = MASTER,
    goal: str = "< 2",
) -> Row:
    """Train in turns with and without."""
    (x, y), _ = mnist()
    rates: dict[bool, list[float]] = {False: [], True: []}
    with (
        spark(master) as session,
        tempfile.TemporaryDirectory(prefix="tos-benchmark-") as directory,
        tos.TrainingSession(
            session, network(TWO_NN), sync_interval=10, batch_size=BATCH_SIZE
        ) as training,
    ):
        measure(training, (x, y), 1)
        for number in range(2 * rounds):
            # The second one is not always the same.
            active = number % 4 in (1, 2)
            more = options(Path(directory, str(number))) if active else {}
            Path(directory, str(number)).mkdir()
            rates[active].append(measure(training, (x, y), epochs, **more).steady)
    pairs = zip(rates[False], rates[True], strict=True)
    cost = 100 * (1 - median(b / a for a, b in pairs))
    parts = {
        "without": ", ".join(map(rate, rates[False])),
        "with": ", ".join(map(rate, rates[True])),
    }
    return Row(f"cost of {what}", cost, "%", goal, parts, rounds)


def run(quick: bool) -> list[Row]:
    """Measure event files, and callbacks."""
    rounds, epochs = (2, 5) if quick else (6, 10)
    return [
        compare("event files with histograms", event_files, rounds, epochs),
        compare("callbacks with a hook for milestones", callbacks, rounds, epochs),
    ]


if __name__ == "__main__":
    program(run, __doc__)
