from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.two_processes import START_SPARK

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", START_SPARK)
def test_what_is_kept_in_one_process_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_test_that_takes_the_shared_spark_is_kept_in_that_process() -> None:
    taking = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(r"\bspark_context: Any\b", path.read_text()) and "cluster" not in path.parts
    ]
    assert taking
    assert [path for path in taking if not path.startswith(START_SPARK)] == []
