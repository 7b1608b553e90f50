"""The clusters, started once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters.hadoop import Hadoop
from tests.clusters.standalone import Standalone
from tests.unit.data import mnist
from tests.unit.data.idx_files import write_stripes


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """HDFS with two data nodes, YARN with two node managers."""
    with Hadoop(tmp_path_factory.mktemp("hadoop")) as servers:
        yield servers


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two nodes of two cores."""
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def stripes(hadoop: Hadoop, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small MNIST in HDFS."""
    folder = tmp_path_factory.mktemp("stripes")
    write_stripes(folder)
    return hadoop.put(folder.iterdir(), "/stripes")


@pytest.fixture(scope="session")
def digits(hadoop: Hadoop, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, mnist.Digits]:
    """The digits of the original's program in HDFS: where, and what to expect of them."""
    found = mnist.digits(tmp_path_factory.mktemp("digits"))
    return hadoop.put(found.folder.iterdir(), "/digits"), found
