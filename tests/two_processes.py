"""A pytest plug-in for two processes, `-n 2`: one of them has all tests that start a Spark.

Two Sparks at once would take the cores from each other; the tests that need none fill the time in
which one waits.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

START_SPARK = (
    "tests/browser/",
    "tests/checkpoint/test_kill.py",
    "tests/checkpoint/test_resume.py",
    "tests/cluster_local/",
    "tests/data/test_arrays.py",
    "tests/data/test_frames.py",
    "tests/data/test_rdd.py",
    "tests/data/test_records.py",
    "tests/docs/",
    "tests/inference/",
    "tests/integration/",
    "tests/magics/test_connect.py",
    "tests/magics/test_train.py",
    "tests/magics/test_training.py",
    "tests/ml/",
    "tests/notebooks/",
    "tests/tensorspark/",
    "tests/test_demo.py",
)


class OneSpark(LoadScopeScheduling):
    """Hands out whole files, and all files that start a Spark together."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(START_SPARK) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return OneSpark(config, log)
