"""Another package that trains: in a process, and perhaps an environment, of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import tos_notebook as tos

from .data import mnist
from .harness import Row, rate
from .models import TWO_NN, accuracy_of, name_of, network
from .ours import BATCH_SIZE, measure, spark

SIDES = Path(__file__).parent / "sides"
INSTALL = 1800
"""Seconds for packages to be installed."""


class Trained(NamedTuple):
    """One training."""

    samples: int
    seconds: float
    """Of the whole call, warm."""
    accuracy: float
    """Share of MNIST's test images."""

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds


def python_with(requirements: Sequence[str], folder: Path) -> Path:
    """Return the Python of an environment with packages; make it unless it is in the folder.

    Raises
    ------
    subprocess.CalledProcessError
        pip could not install them.
    """
    place = folder / re.sub(r"\W+", "-", " ".join(requirements))
    python = place / "bin/python"
    done = place / "installed"
    if not done.exists():
        venv.create(place, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True, timeout=INSTALL)
        done.touch()
    return python


class Neighbor:
    """A process that trains whenever it is told to; a context manager that ends it.

    Parameters
    ----------
    side : str
        Name of a script in `SIDES`. It imports nothing of this package, takes the file of the data
        and the options, reads a number of epochs from each line of its input, and writes seconds
        and accuracy as JSON.
    options : sequence of str
    python : Path, optional
        What runs it; by default the Python that runs this.
    """

    def __init__(
        self, side: str, options: Sequence[str] = (), python: Path = Path(sys.executable)
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tos-neighbor-")
        data = Path(self._folder.name, "mnist.npz")
        (x, y), (x_test, y_test) = mnist()
        np.savez(data, x=_scaled(x), y=y, x_test=_scaled(x_test), y_test=y_test)
        self._samples = len(x)
        command = [python, SIDES / f"{side}.py", data, *options]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
        self._process = subprocess.Popen(command, env=environment, **pipes)

    def train(self, epochs: int) -> Trained:
        """Train from the start.

        Raises
        ------
        RuntimeError
            The process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(epochs, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            # Some of them print on their own account.
            if line.startswith("{"):
                return Trained(epochs * self._samples, **json.loads(line))
        raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}.")

    def __enter__(self) -> Neighbor:
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def compare(name: str, how: str, neighbor: Neighbor, quick: bool, **options: Any) -> Row:
    """Train MNIST's 784-200-200-10 by both, in turns, and return the ratio of whole calls.

    Parameters
    ----------
    name : str
        Of the neighbor.
    how : str
        How ours trains.
    neighbor : Neighbor
    quick : bool
    **options
        Of our session.
    """
    epochs, rounds = (2, 3) if quick else (5, 5)
    with our_side(options) as ours:
        ours(1)
        neighbor.train(1)
        pairs = [(ours(epochs), neighbor.train(epochs)) for _ in range(rounds)]
    ratios = [mine.rate / other.rate for mine, other in pairs]
    parts = {
        side: f"{rate(median(t.rate for t in trained))}, accuracy {_accuracies(trained)}"
        for side, trained in zip(("ours", name), zip(*pairs, strict=True), strict=True)
    }
    parts["range of the ratio"] = f"{min(ratios):.2f} to {max(ratios):.2f}"
    what = f"MNIST, {name_of(TWO_NN)}, {epochs} epochs: {how} / {name}"
    return Row(what, median(ratios), "x", "", parts, rounds)


@contextmanager
def our_side(options: dict[str, Any]) -> Iterator[Any]:
    """Yield a function of the epochs, which trains with this package from the start."""
    data, test = mnist()
    model = network(TWO_NN, metrics=("accuracy",))
    initial = model.get_weights()
    given = {"batch_size": BATCH_SIZE} | options
    with spark() as session, tos.TrainingSession(session, model, **given) as training:

        def train(epochs: int) -> Trained:
            model.set_weights(initial)
            measured = measure(training, data, epochs)
            return Trained(measured.samples, measured.wall, accuracy_of(model, test))

        yield train


def _scaled(images: Any) -> Any:
    return np.float32(images) / np.float32(255)


def _accuracies(trained: Sequence[Trained]) -> str:
    found = [each.accuracy for each in trained]
    return f"{min(found):.3f} to {max(found):.3f}"
