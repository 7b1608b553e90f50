"""The variable of a run: what a cell may put there, and what of the user's it leaves alone."""

from __future__ import annotations

import pytest

from tests.unit.magics.conftest import Cells, Cluster, Engine
from tests.unit.magics.test_saved import Saved

LINE = "%tos_train --model program --data train"


def test_a_run_replaces_a_run_in_the_variable_by_default(cells: Cells, engine: Engine) -> None:
    cells(f"{LINE} --seed 1")
    cells(f"{LINE} --seed 2")
    assert cells.space["run"] is engine.runs[1]


@pytest.mark.parametrize(
    ("made", "kind"), [("run = 3", "int"), ("def run():\n    pass", "function")]
)
def test_what_is_no_run_keeps_the_variable_by_default(
    cells: Cells, engine: Engine, made: str, kind: str
) -> None:
    cells(made)
    before = cells.space["run"]
    output = cells.fails(LINE)
    assert f"expected no variable run, or a run in it; got one of type {kind}. " in output
    assert "To keep it, name another variable, such as" in output
    assert "-o my_run. To replace it, write -o run" in output
    assert len(output.strip().splitlines()) == 1
    assert cells.space["run"] is before
    assert not engine.sessions
    cells(f"{LINE} -o run")
    assert cells.space["run"] is engine.runs[0]


def test_the_cells_own_code_does_not_run_where_the_variable_is_taken(
    cells: Cells, engine: Engine
) -> None:
    cells("run = 3")
    output = cells.fails("%%tos_train --model program --data train\nprint('it ran')")
    assert "To keep it, name" in output
    assert "it ran" not in output


def test_what_the_cell_itself_calls_run_is_kept(cells: Cells, engine: Engine) -> None:
    output = cells.fails("%%tos_train --model program --data train\ndef run(): return 3")
    assert "got one of type function. To keep it, name" in output
    assert cells.space["run"]() == 3
    assert not engine.sessions


def test_a_resumed_run_leaves_a_variable_that_is_no_run(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = Saved(engine, monkeypatch)
    cells("run = 3")
    assert "To keep it, name" in cells.fails("%tos_resume hdfs:///runs/run-1")
    assert not saved.asked
    assert cells.space["run"] == 3


def test_a_cluster_leaves_a_variable_that_is_no_cluster(cells: Cells, cluster: Cluster) -> None:
    cells("cluster = 3")
    output = cells.fails("%%tos_cluster --workers 1\ndef main(args, ctx): pass")
    assert "expected no variable cluster, or a cluster in it; got one of type int" in output
    assert "-o my_cluster" in output
