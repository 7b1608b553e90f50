"""Runs a part of the tests with other versions of Spark, TensorFlow and Keras.

    python -m tools.versions [NAME ...] [--tests FILE ...]

Each combination has an environment of its own in ``.versions``, some 2.5 GB, which is made once.
What all combinations have in common is what `setup.py` asks for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".versions"

COMBINATIONS: Mapping[str, Sequence[str]] = {
    "spark-4.0": ("pyspark==4.0.*", "tensorflow==2.18.*", "keras==3.12.*"),
    "spark-4.1": ("pyspark==4.1.*", "tensorflow==2.21.*"),
    "spark-4.3": ("pyspark==4.3.*", "tensorflow==2.18.*"),
}
"""What each pins, by its name. The oldest of all, the newest TensorFlow on an older Spark, and an
old TensorFlow on the newest Spark; `make test` has the newest of both."""

TOOLS = ("pytest>=9,<10", "pytest-xdist>=3.6,<4", "hypothesis>=6.100,<7")
"""What the tests below need."""

TESTS = (
    "tests/unit/cluster",
    "tests/unit/inference",
    "tests/unit/ml",
    "tests/integration/test_training.py",
    "tests/integration/test_fit.py",
    "tests/integration/test_columns.py",
    "tests/integration/test_frames.py",
    "tests/integration/test_allreduce.py",
    "tests/integration/test_resumed.py",
    "tests/integration/test_examples.py",
    "tests/integration/test_spark_connect.py",
)
"""What calls Spark and TensorFlow in most ways: to connect, read, train, predict, in pipelines."""


def environment(name: str) -> Path:
    """Return the Python of a combination, and install it first if it is not there."""
    folder = HOME / name
    python, done = folder / "bin" / "python", folder / "installed"
    # Another setup.py asks for other packages.
    if not done.is_file() or done.stat().st_mtime < (ROOT / "setup.py").stat().st_mtime:
        print(f"{name}: installing {' '.join(COMBINATIONS[name])} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run(
            [*pip, "-e", f"{ROOT}[demo,connect]", *COMBINATIONS[name], *TOOLS], check=True
        )
        # Last, so that an interrupted installation is done again.
        done.touch()
    return python


def main() -> int:
    """Test the combinations that are named, or all; return 1 if a test of one has failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions")
    parser.add_argument("names", nargs="*", choices=[*COMBINATIONS, []], metavar="NAME")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files, or options of pytest")
    given = parser.parse_args()
    names, failed = given.names or [*COMBINATIONS], []
    for name in names:
        command = [str(environment(name)), "-m", "pytest", "-q", *given.tests]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    print(f"Failed: {', '.join(failed)}" if failed else f"Passed: {', '.join(names)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
