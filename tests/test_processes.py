from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import GROUPS, START_PROCESSES, START_SPARK, group

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", START_PROCESSES + START_SPARK)
def test_what_is_kept_in_one_process_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_test_that_takes_the_shared_spark_is_kept_in_that_process() -> None:
    taking = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(r"\bspark_context: Any\b", path.read_text()) and "cluster" not in path.parts
    ]
    assert taking
    assert [path for path in taking if group(path) != "spark"] == []


def test_a_test_is_in_one_group_at_most() -> None:
    assert group("tests/browser/test_panel.py::test_it") == "processes"
    assert group("tests/test_params.py::test_it") == ""
    assert list(GROUPS) == ["processes", "spark"]
