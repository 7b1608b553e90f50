from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.blocks.skips import SkipCounter
from tos_notebook.data.dealing import deal, keep, undealt
from tos_notebook.data.rdd import RddSource
from tos_notebook.errors import ConfigError


class Conf:
    """A Spark context, as far as its settings are asked for."""

    def __init__(self, limit: str | None = None) -> None:
        self._limit = limit
        self._jsc = self

    def sc(self) -> Conf:
        return self

    def conf(self) -> Conf:
        return self

    def get(self, key: str, default: str) -> str:
        assert key == "spark.tos.data.limit"
        return self._limit or default


class Blocks:
    """An RDD that is only asked how it is cut, and to be kept."""

    kept = False

    def getNumPartitions(self) -> int:
        return 4

    def persist(self, level: Any) -> None:
        self.kept = True


def source(nbytes: int | None) -> tuple[RddSource, Blocks]:
    blocks: Any = Blocks()
    return RddSource.from_decoded(blocks, (), SkipCounter(), nbytes), blocks


@pytest.mark.parametrize(
    ("limit", "nbytes", "kept"),
    [
        (None, 2**34, True),
        (None, 2**34 + 1, False),
        ("1k", 1024, True),
        ("1kb", 1025, False),
        ("200g", 2**37, True),
        ("1k", None, True),
        ("0", None, False),
    ],
)
def test_rows_are_kept_up_to_a_limit_and_it_is_said_if_they_are_not(
    limit: str | None, nbytes: int | None, kept: bool
) -> None:
    given, blocks = source(nbytes)
    notes = keep(Conf(limit), given)
    assert (blocks.kept, notes == ()) == (kept, kept)


def test_rows_beyond_the_limit_stay_in_their_partitions() -> None:
    given, _ = source(2**40)
    assert deal(Conf(), given, None, 0) is given
    assert deal(Conf(), given, 4, 0) is given


@pytest.mark.parametrize("partitions", [1, 8])
def test_other_partitions_of_rows_that_stay_in_theirs_are_refused(partitions: int) -> None:
    given, _ = source(2**40)
    wanted = f"partitions={partitions}: .* stay in the 4 .* df.repartition\\({partitions}\\)"
    with pytest.raises(ConfigError, match=f"{wanted}.*Raise the limit"):
        deal(Conf(), given, partitions, 0)
    with pytest.raises(ConfigError, match=f"{wanted}.*shuffle=True"):
        undealt(given, partitions)


@pytest.mark.parametrize("partitions", [None, 4])
def test_rows_that_are_not_dealt_stay_as_they_are(partitions: int | None) -> None:
    given, _ = source(1)
    assert undealt(given, partitions) is given


def test_a_limit_that_is_no_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"spark\.tos\.data\.limit: expected a size.*'much'"):
        keep(Conf("much"), source(1)[0])
