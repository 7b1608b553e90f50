"""The main job, on the bundled digits, as a user starts it."""

from __future__ import annotations

import gzip
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tos_notebook import demo
from tos_notebook.errors import DataError

ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str, installed: Path | None = None) -> subprocess.Popen[str]:
    """Start the demo in a folder of its own, as the leader of a process group.

    By a Python that has the package installed, or by this one from the sources.
    """
    hidden = {
        *("TOS_MNIST_DIR", "SPARK_HOME", "SPARK_MASTER", "PYSPARK_SUBMIT_ARGS"),
        *("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"),
    }
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.Popen(
        [installed or sys.executable, "-m", "tos_notebook.demo", *arguments],
        cwd=folder,
        env=env | ({} if installed else {"PYTHONPATH": str(ROOT)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the demo's end; return exit code, output and errors.

    Where Spark or TensorFlow starts slowly, the demo says that it still waits, which is no error.
    """
    out, err = process.communicate(timeout=300)
    waits = r"Nothing has come for \d+ s: this call still waits for Spark |Waiting for local\["
    return process.returncode, out, re.sub(f"^({waits}).*\n", "", err, flags=re.M)


def learns(folder: Path, installed: Path | None = None) -> None:
    """Check that the bundled digits are learnt, and reported without noise."""
    arguments = ("--epochs", "10", "--master", "local[2]", "--report", "r/a.html")
    with start(folder, *arguments, installed=installed) as process:
        code, out, err = finish(process)
    assert (code, err) == (0, "")
    assert "Data: scikit-learn's digits, 1,437 images" in out
    assert "Captured: a keras program fed images uint8 (64,)" in out
    assert "4,810 values" in out
    assert re.search(r"^epoch 10/10  milestones \d+ .* staleness .*finished$", out, re.M)
    trained = re.findall(r"^ *driver +127\.0\.0\.1 +([01]) +(\d+) +(\d+) ", out, re.M)
    assert {partition for partition, _, _ in trained} == {"0", "1"}
    assert sum(int(samples) for _, _, samples in trained) == 10 * 1437
    accuracy = re.search(r"Test accuracy: (0\.\d+) on 360 images", out)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.85
    report = folder / "r" / "a.html"
    assert f"Report: {report}" in out
    assert "plotly" in report.read_text(encoding="utf-8")


# So it is where the package is installed, in tests/packaging/test_distributions.py.
@pytest.mark.long
def test_the_bundled_digits_are_learnt_and_reported_without_noise(tmp_path: Path) -> None:
    learns(tmp_path)


def test_an_interrupt_stops_the_run_keeps_the_weights_and_says_so(tmp_path: Path) -> None:
    """As Ctrl-C does, the signal goes to the whole process group, so to the JVM as well."""
    with start(tmp_path, "--epochs", "1000000") as process:
        assert process.stdout is not None
        # The first lines come while workers start.
        next(line for line in process.stdout if "samples/s" in line)
        os.killpg(process.pid, signal.SIGINT)
        code, out, err = finish(process)
    assert (code, err) == (demo.INTERRUPTED, "")
    assert "Interrupted: the run is stopped, the model keeps the weights it has." in out
    assert "Test accuracy: 0." in out
    assert (tmp_path / "tos-report.html").is_file()


def failure(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Return the one message of a demo that fails before Spark starts."""
    assert demo.main(arguments) == 1
    written = capfd.readouterr()
    assert written.out == ""
    assert "Traceback" not in written.err
    return written.err


def test_a_folder_without_mnist_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    message = failure(["--data", str(tmp_path / "nothing")], capfd)
    assert "Expected train-images-idx3-ubyte or train-images-idx3-ubyte.gz in" in message
    assert str(tmp_path / "nothing") in message


def test_no_epochs_are_refused(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_digits", lambda _: demo.bundled_digits())
    message = failure(["--epochs", "0"], capfd)
    assert message.startswith("ConfigError: epochs: expected a whole number of at least 1")


def write_mnist(folder: Path, compressed: bool) -> None:
    """Write four files like MNIST's, with 3 images to train on and 2 to test on."""
    folder.mkdir(parents=True)
    for part, rows in (("train", 3), ("t10k", 2)):
        images = struct.pack(">4B3I", 0, 0, 8, 3, rows, 28, 28) + bytes(rows * 784)
        labels = struct.pack(">4BI", 0, 0, 8, 1, rows) + bytes(range(rows))
        for name, data in ((f"{part}-images-idx3", images), (f"{part}-labels-idx1", labels)):
            path = folder / f"{name}-ubyte{'.gz' if compressed else ''}"
            path.write_bytes(gzip.compress(data) if compressed else data)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzipped"])
def test_mnist_is_read_from_idx_files(tmp_path: Path, compressed: bool) -> None:
    write_mnist(tmp_path / "mnist", compressed)
    digits = demo.mnist(tmp_path / "mnist")
    assert [part.shape for part in (*digits.train, *digits.test)] == [
        (3, 784),
        (3,),
        (2, 784),
        (2,),
    ]
    assert (digits.train[0].dtype, digits.train[1].dtype) == (np.uint8, np.int64)
    assert digits.train[1].tolist() == [0, 1, 2]


def test_mnist_is_read_where_named_and_otherwise_the_bundled_digits_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, variable = tmp_path / "named", tmp_path / "variable"
    for folder in (named, variable):
        write_mnist(folder, compressed=False)
    monkeypatch.delenv("TOS_MNIST_DIR", raising=False)
    assert demo.find_digits(None).name == "scikit-learn's digits"
    monkeypatch.setenv("TOS_MNIST_DIR", str(variable))
    assert demo.find_digits(None).name == f"MNIST in {variable}"
    assert demo.find_digits(str(named)).name == f"MNIST in {named}"
    monkeypatch.setenv("TOS_MNIST_DIR", str(tmp_path / "mistyped"))
    with pytest.raises(DataError, match="mistyped"):
        demo.find_digits(None)


def test_the_bundled_digits_are_split_evenly_and_always_alike() -> None:
    digits, again = demo.bundled_digits(), demo.bundled_digits()
    assert (len(digits.train[0]), len(digits.test[0])) == (1437, 360)
    assert digits.train[0].max() == digits.white
    assert np.bincount(digits.test[1]).tolist() == pytest.approx([36] * 10, abs=2)
    assert all(np.array_equal(a, b) for a, b in zip(digits.test, again.test, strict=True))
