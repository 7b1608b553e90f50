"""What a benchmark says of its goals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lib.harness import Row, print_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "goal", "met"),
    [
        (0.95, ">= 0.95", True),
        (0.94, ">= 0.95", False),
        (0.2, "<= 0.2", True),
        (8000, "> 8000", False),
        (0.0, "== 0", True),
        (1.0, "", None),
    ],
)
def test_a_goal_is_met_or_missed(value: float, goal: str, met: bool | None) -> None:
    row = Row("what", value, "x", goal)
    assert row.met is met
    assert ("met" in str(row), "missed" in str(row)) == (met is True, met is False)


def test_a_table_ends_with_how_many_goals_were_missed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row("a", 1.0, "x", ">= 2"), Row("b", 3.0, "x", ">= 2"), Row("c", 0.0, "s")]
    print_table(rows)
    assert capsys.readouterr().out.endswith("1 of 2 goals missed\n")


def test_a_table_says_what_was_run_and_how_often(capsys: pytest.CaptureFixture[str]) -> None:
    quick = "python -m benchmarks.latency.exchange --quick"
    rows = [Row("a", 1.0, "x", runs=5, command=quick), Row("b", 2.0, "x", command=quick)]
    print_table([*rows, Row("c", 3.0, "s", command="python -m benchmarks.scale.load")])
    told = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert told == [
        ["$", *quick.split()],
        ["a", "1.000", "x", "5", "runs"],
        ["b", "2.000", "x", "1", "run"],
        ["$", "python", "-m", "benchmarks.scale.load"],
        ["c", "3.000", "s", "1", "run"],
    ]


def test_a_program_prints_the_command_that_runs_it_again(tmp_path: Path) -> None:
    (tmp_path / "measure.py").write_text(
        "from benchmarks.lib.harness import Row, program\n"
        "program(lambda quick: [Row('a', 1.0, 'x')], 'It measures.')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "measure", "--quick"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    assert "$ python -m measure --quick\na " in done.stdout


def test_a_folder_reaches_the_measurement_and_is_not_named_in_its_command(tmp_path: Path) -> None:
    (tmp_path / "measure.py").write_text(
        "from benchmarks.lib.harness import Row, program\n"
        "def measure(quick, other):\n"
        "    return [Row('a' if other is None else other.name, 1.0, 'x')]\n"
        "program(measure, 'It measures.', folder=('other', 'a folder'))\n"
    )
    for given, told in ([], "measure\na "), (["--other", "/secret/b"], "measure --other DIR\nb "):
        done = subprocess.run(
            [sys.executable, "-m", "measure", *given],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        )
        assert f"$ python -m {told}" in done.stdout
        assert "secret" not in done.stdout
