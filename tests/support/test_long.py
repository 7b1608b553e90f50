"""What `make test` runs, and what it leaves to `make test-long`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.long import few

ROOT = Path(__file__).parents[2]
FILE = "tests/fuzz/test_kernels.py"


def collected(*options: str) -> list[str]:
    """Return the names of the tests of a file that pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, FILE]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line.rpartition("::")[2] for line in found.stdout.splitlines() if "::" in line]


def test_long_tests_are_left_out_unless_they_are_asked_for() -> None:
    name = "test_no_call_reads_or_writes_where_it_must_not"
    # Seconds stand before the file that is compiled.
    assert {one.partition("-")[0] for one in collected()} == {f"{name}[3"}
    assert {one.partition("-")[0] for one in collected("-m", "long")} == {f"{name}[120"}


def test_a_target_of_make_runs_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = makefile.partition("\ntest-long: setup\n")[2].partition("\n\n")[0]
    assert '-m "long or hypothesis" --hypothesis-profile long' in target
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert options["tool"]["pytest"]["ini_options"]["addopts"].endswith('-m "not long"')


def test_of_a_family_some_are_kept() -> None:
    one, other = few({"a": 1, "b": 2}, "b")
    assert (one.values, [mark.name for mark in one.marks], other) == (("a",), ["long"], "b")
    with pytest.raises(AssertionError, match="mistyped"):
        few("ab", "mistyped")
