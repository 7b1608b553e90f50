from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.processes import GROUPS, group

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sum(GROUPS.values(), ()))
def test_what_is_kept_in_one_process_is_there(path: str) -> None:
    folder, _, name = path.rpartition("/")
    assert [*(ROOT / folder).glob(f"{name}*")]


def test_every_test_that_takes_a_shared_spark_is_in_a_group() -> None:
    takes = r"\bspark_context: Any\b|def test_\w+\(\s*spark: Any\b"
    taking = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(takes, path.read_text()) and "cluster" not in path.parts
    ]
    assert taking
    assert [path for path in taking if not group(path)] == []


def test_a_test_goes_with_the_group_that_names_it_best() -> None:
    assert group("tests/browser/test_panel.py::test_it") == "processes"
    # A file may be taken out of a folder of another group.
    assert group("tests/integration/test_secret.py::test_it") == "processes"
    assert group("tests/integration/test_out.py::test_it") == "spark"
    assert group("tests/unit/test_layout.py::test_it") == ""
