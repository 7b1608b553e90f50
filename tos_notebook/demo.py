"""The main job: train a network on real digits on an embedded Spark, and report.

    python -m tos_notebook.demo [--data DIR] [--epochs N] [--master local[2]] [--report PATH]

Full MNIST where its IDX files are found, else the digits that scikit-learn brings along.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tos_notebook as tos

from .blocks.idx import parse_idx
from .common.arrays import Array
from .common.checks import at_least_one
from .common.console import quiet_stderr
from .errors import DataError, InvalidTransition, TosError
from .telemetry.progress import ProgressLine

MNIST_DIR = "TOS_MNIST_DIR"
"""The environment variable that names the folder of MNIST's files."""

COLUMNS = ["executor", "host", "partition", "milestones", "samples", "samples_per_second"]
COLUMNS += ["staleness_mean", "loss", "lost"]
"""What the table at the end shows of `Run.workers`."""

INTERRUPTED = 130
"""The exit code by which a shell knows Ctrl-C."""


@dataclass(frozen=True)
class Digits:
    """Images of digits with their labels, and how to train on them."""

    name: str
    train: tuple[Array, Array]
    """Images, shape (rows, pixels), uint8, and labels, shape (rows,), int64."""
    test: tuple[Array, Array]
    white: int
    """The largest value of a pixel."""
    hidden: tuple[int, ...]
    """Sizes of the hidden layers."""
    batch_size: int
    epochs: int


def find_digits(folder: str | None) -> Digits:
    """Return MNIST from a folder or from `TOS_MNIST_DIR`, else the bundled digits.

    Raises
    ------
    DataError
        A folder was named and has no MNIST, or a file is damaged.
    """
    named = folder or os.environ.get(MNIST_DIR)
    return mnist(Path(named)) if named else bundled_digits()


def mnist(folder: Path) -> Digits:
    """Read MNIST's four IDX files, plain or gzipped."""
    train, test = (
        (
            _idx(folder, f"{part}-images-idx3-ubyte").reshape(-1, 784),
            _idx(folder, f"{part}-labels-idx1-ubyte").astype(np.int64),
        )
        for part in ("train", "t10k")
    )
    return Digits(f"MNIST in {folder}", train, test, 255, (200, 200), 100, 5)


def _idx(folder: Path, name: str) -> Array:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return parse_idx(path.read_bytes(), str(path))
    raise DataError(
        f"Expected {name} or {name}.gz in {folder.absolute()}, found neither. Name the folder "
        "with MNIST's four IDX files, or none to train on scikit-learn's digits."
    )


def bundled_digits() -> Digits:
    """Return scikit-learn's 1797 digits of 8x8 pixels, split into 1437 and 360."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise DataError(
            f"The bundled digits need scikit-learn ({error}). Install it, or name a folder "
            "with MNIST's IDX files."
        ) from error
    found = load_digits()
    images, labels = found.data.astype(np.uint8), found.target.astype(np.int64)
    x, x_test, y, y_test = train_test_split(
        images, labels, test_size=360, random_state=0, stratify=labels
    )
    return Digits("scikit-learn's digits", (x, y), (x_test, y_test), 16, (64,), 32, 20)


def make_model(digits: Digits) -> Any:
    """Return a compiled Keras network, the same each time."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    keras.utils.set_random_seed(0)
    pixels = digits.train[0].shape[1]
    model = keras.Sequential(
        [
            keras.Input((pixels,), dtype="uint8", name="images"),
            keras.layers.Rescaling(1 / digits.white),
            *(keras.layers.Dense(size, activation="relu") for size in digits.hidden),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    loss = "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    return model


def train(digits: Digits, epochs: int, master: str, report: Path) -> int:
    """Train, evaluate and report; return the exit code.

    Raises
    ------
    TosError
        Whatever kept Spark from starting, or ended the run.
    OSError
        The report cannot be written.
    """
    print(f"Data: {digits.name}, {len(digits.train[0]):,} images to train on")
    print(f"Connecting to Spark on {master} ...", flush=True)
    spark = tos.connect(master)
    try:
        program = tos.capture(make_model(digits))
        print(f"Captured: {_describe(program)}")
        with tos.TrainingSession(spark, program, batch_size=digits.batch_size) as session:
            print(f"Parameter server at {session.address}, {session.combiner!r}", flush=True)
            run = session.start(digits.train, epochs, sinks=[ProgressLine(sys.stdout)])
            code = _wait(run)
            _conclude(run, digits, report)
        return code
    finally:
        spark.stop()


def _describe(program: Any) -> str:
    feeds = ", ".join(f"{f.name} {f.dtype or 'any dtype'} {f.shape or ''}" for f in program.feeds)
    layout = program.layout
    return (
        f"a {program.kind} program fed {feeds.strip()}; {len(layout)} parameter tensors, "
        f"{layout.size:,} values, {layout.nbytes:,} bytes"
    )


def _wait(run: tos.Run) -> int:
    try:
        run.wait()
    except KeyboardInterrupt:
        with suppress(InvalidTransition):  # it may have ended by itself just now
            run.stop()
        print("Interrupted: the run is stopped, the model keeps the weights it has.")
        return INTERRUPTED
    return 0


def _conclude(run: tos.Run, digits: Digits, report: Path) -> None:
    status = run.status
    print(f"\n{run.workers[COLUMNS].to_string(index=False, float_format='{:,.3f}'.format)}\n")
    print(f"Trained {status.samples:,} samples in {status.elapsed:.1f} s: {status.state}")
    accuracy = run.evaluate(*digits.test)["accuracy"]
    print(f"Test accuracy: {accuracy:.4f} on {len(digits.test[0]):,} images")
    run.report(report)
    print(f"Report: {report.absolute()}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tos_notebook.demo", description="Train on real digits on Spark."
    )
    parser.add_argument("--data", metavar="DIR", help="MNIST's IDX files; see TOS_MNIST_DIR")
    parser.add_argument("--epochs", type=int, metavar="N", help="5 for MNIST, 20 for digits")
    parser.add_argument("--master", default="local[2]", help="Spark's master (%(default)s)")
    parser.add_argument(
        "--report", type=Path, default=Path("tos-report.html"), help="HTML file (%(default)s)"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0, 1 after an error, or `INTERRUPTED`."""
    options = _options(arguments)
    try:
        digits = find_digits(options.data)
        epochs = digits.epochs if options.epochs is None else options.epochs
        with quiet_stderr():
            return train(digits, at_least_one("epochs", epochs), options.master, options.report)
    except (TosError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
