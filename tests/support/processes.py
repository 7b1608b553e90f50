"""A pytest plug-in for three processes, `-n 3`, on a machine of two cores.

Groups of tests run beside each other: those that share a Spark, which are halved, those that start
processes, browsers among them, those that execute notebooks and build the documentation, and those
that share a built package. A process that is done with a group takes the next one, and other files.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

START_PROCESSES = (
    "tests/browser/",
    "tests/unit/training/checkpoint/test_kill.py",
    "tests/integration/test_secret.py",
    "tests/unit/magics/test_board_process.py",
    "tests/unit/runtime/test_import_guard.py",
    "tests/integration/test_demo.py",
    "tests/integration/test_examples.py",
)

BUILD_DOCUMENTS = (
    "tests/docs/test_site.py",
    "tests/notebooks/",
)

SHARE_A_SPARK = (
    "tests/unit/training/checkpoint/test_killed_driver.py",
    "tests/unit/training/checkpoint/test_resume.py",
    "tests/unit/cluster/",
    "tests/unit/data/test_arrays.py",
    "tests/unit/data/test_dataframe.py",
    "tests/unit/data/test_images.py",
    "tests/unit/data/test_prepared.py",
    "tests/unit/data/test_rdd.py",
    "tests/unit/data/test_records.py",
    "tests/integration/",
)

SHARE_ANOTHER = (
    "tests/docs/",
    "tests/integration/test_s",
    "tests/integration/test_t",
    "tests/unit/inference/",
    "tests/unit/magics/test_connect.py",
    "tests/unit/magics/test_every_option.py",
    "tests/unit/magics/test_same_numbers.py",
    "tests/unit/magics/test_train.py",
    "tests/unit/magics/test_training.py",
    "tests/unit/ml/",
    "tests/unit/program/test_adapt.py",
    "tests/unit/tensorflowonspark/test_dfutil.py",
    "tests/unit/tensorspark/",
)

BUILD_A_WHEEL = (
    "tests/packaging/test_distributions.py",
    "tests/packaging/test_kernels.py",
    "tests/packaging/test_labextension.py",
)

GROUPS = {
    "spark": SHARE_A_SPARK,
    "another spark": SHARE_ANOTHER,
    "processes": START_PROCESSES,
    "documents": BUILD_DOCUMENTS,
    "wheel": BUILD_A_WHEEL,
}
"""The paths that each begins with, in the order in which they are handed out: long ones first."""


def group(nodeid: str) -> str:
    """Return what a test is kept together with; nothing for a test that goes with its file.

    Of several paths that it begins with, the longest one counts.
    """
    found = [
        (len(p), name) for name, paths in GROUPS.items() for p in paths if nodeid.startswith(p)
    ]
    return max(found, default=(0, ""))[1]


class Grouped(LoadScopeScheduling):
    """Hands out whole files, and groups of files as one."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid) or nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups first, which take longest."""
    order = [*GROUPS, ""]
    items.sort(key=lambda item: order.index(group(item.nodeid)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    # In the order of the items, not by the number of tests.
    config.option.loadscopereorder = False
    return Grouped(config, log)
