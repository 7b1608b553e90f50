"""What a benchmark says of its goals."""

from __future__ import annotations

import pytest

from benchmarks.harness import Row, print_table


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
