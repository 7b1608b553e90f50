"""A new user's way: from a clone to a curve that moves, and on to the first notebook.

As in a new container: an own home, no cache of packages, none of this shell's variables. What is
committed is cloned. Downloads count.

    python -m benchmarks.start_up.fresh [--quick]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter

from ..lib.harness import Row, program

ROOT = Path(__file__).parents[2]
COMMAND = "make demo"
LIMIT = 1800
"""Seconds. A download that stands still ends then."""

STEPS = {
    "environment": "touch .venv/venv.stamp",
    "packages": "touch .venv/demo.stamp",
    "Spark, TensorFlow, a curve that moves": "epoch ",
    "the main job, with its report": "Report: ",
    "the first notebook, executed": "It ran from top to bottom",
}
"""What has been done by the time a line of the output begins so."""

MOVING = "Spark, TensorFlow, a curve that moves"
KEPT = ("PATH", "JAVA_HOME", "LANG")


def environment(home: str) -> dict[str, str]:
    """Return what a new user's shell has."""
    # Where packages come from is the machine's affair.
    names = [name for name in os.environ if name in KEPT or name.startswith(("PIP_", "SSL_"))]
    return {name: os.environ[name] for name in names} | {"HOME": home, "PYTHONUNBUFFERED": "1"}


def steps(lines: Iterable[str], began: float) -> Iterator[tuple[str, float]]:
    """Yield each step's name and its seconds, as its line comes."""
    left = dict(STEPS)
    for line in lines:
        name = next((name for name, start in left.items() if line.startswith(start)), None)
        if name is None:
            continue
        del left[name]
        now = perf_counter()
        yield name, now - began
        began = now
    if left:
        raise RuntimeError(f"`{COMMAND}` ended without: {', '.join(left)}.")


def run(quick: bool) -> list[Row]:
    """Go the way once; there is no quicker one."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="tos-fresh-") as folder:
        clone, variables = Path(folder, "clone"), environment(folder)
        began = perf_counter()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True, env=variables)
        found["git clone"] = perf_counter() - began
        with subprocess.Popen(
            ["timeout", str(LIMIT), *COMMAND.split()],
            cwd=clone,
            env=variables,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for name, seconds in steps(process.stdout, perf_counter()):
                found[name] = seconds
                sys.stdout.write(f"{name}: {seconds:.1f} s\n")
        if process.returncode:
            raise RuntimeError(f"`{COMMAND}` ended with {process.returncode}.")
    names = list(found)
    moving = sum(found[name] for name in names[: names.index(MOVING) + 1])
    parts = {name: f"{seconds:.1f} s" for name, seconds in found.items()}
    return [
        Row("git clone, make demo: a curve moves", moving / 60, "min", "< 10", parts),
        Row("git clone, make demo: all of it", sum(found.values()) / 60, "min"),
    ]


if __name__ == "__main__":
    program(run, __doc__)
