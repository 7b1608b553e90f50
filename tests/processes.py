"""A pytest plug-in for three processes, `-n 3`, on a machine of two cores.

Two of them wait more than they compute: one for processes that tests start, browsers and kernels of
notebooks among them, and one for the Spark that many tests share. The third has all the others.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

START_PROCESSES = (
    "tests/browser/",
    "tests/checkpoint/test_kill.py",
    "tests/integration/test_secret.py",
    "tests/notebooks/",
    "tests/program/test_lean.py",
    "tests/test_demo.py",
)

START_SPARK = (
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
    "tests/tensorspark/",
)

GROUPS = {"processes": START_PROCESSES, "spark": START_SPARK}


def group(nodeid: str) -> str:
    """Return what a test is kept together with; nothing for a test that goes with its file."""
    return next((name for name, paths in GROUPS.items() if nodeid.startswith(paths)), "")


class Grouped(LoadScopeScheduling):
    """Hands out whole files, and groups of files as one."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid) or nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups first: they take longest."""
    order = [*GROUPS, ""]
    items.sort(key=lambda item: order.index(group(item.nodeid)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    # In the order of the items, not by the number of tests.
    config.option.loadscopereorder = False
    return Grouped(config, log)
