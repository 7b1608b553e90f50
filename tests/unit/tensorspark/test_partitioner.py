from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import chain
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors

from tos_notebook.errors import ConfigError
from tos_notebook.tensorspark.partitioner import Partitioner, RandomPartitioner, content_hash

KEYS = [np.full(3, i, np.float32) for i in range(2000)]


class Parity(Partitioner):
    def __call__(self, key: Any) -> int:
        return int(key) % self.num_partition


def targets(partitioner: Partitioner) -> list[int]:
    return [partitioner(key) for key in KEYS]


def layout_of(rdd: Any) -> list[set[int]]:
    return rdd.mapPartitions(lambda records: [{number for _, number in records}]).collect()


@pytest.fixture(scope="module")
def images(spark_context: Any) -> Any:
    return spark_context.parallelize(list(zip(KEYS, range(len(KEYS)), strict=True)), 2)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_partitions_are_balanced(count: int) -> None:
    """Within five standard deviations of what fair dice give."""
    share = len(KEYS) / count
    found = np.bincount(targets(RandomPartitioner(count)), minlength=count)
    assert np.abs(found - share).max() <= 5 * np.sqrt(share)
    assert len(found) == count


def test_a_round_is_frozen_and_the_next_is_independent() -> None:
    partitioner = RandomPartitioner(2)
    first, second = partitioner.for_shuffle(), partitioner.for_shuffle()
    before = targets(first)
    assert targets(pickle.loads(pickle.dumps(first))) == before
    assert abs(np.mean(np.equal(before, targets(second))) - 0.5) < 0.06
    assert targets(first) == before


def test_the_seed_decides() -> None:
    assert targets(RandomPartitioner(2, seed=1)) == targets(RandomPartitioner(2, seed=1))
    assert targets(RandomPartitioner(2, seed=1)) != targets(RandomPartitioner(2, seed=2))


def test_every_partition_by_with_one_object_reshuffles(images: Any) -> None:
    """Spark by itself would leave out the second shuffle; see `_teach_partition_by`."""
    partitioner = RandomPartitioner(2, seed=3)
    rdd, layouts = images, []
    for _ in range(3):
        rdd = rdd.partitionBy(2, partitioner).cache()
        layouts.append(layout_of(rdd))
    assert all(sorted(chain(*layout)) == list(range(len(KEYS))) for layout in layouts)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        shared = len(layouts[one][0] & layouts[other][0]) / len(KEYS)
        assert abs(shared - 0.25) < 0.06


def test_a_recomputed_partition_is_the_same(images: Any) -> None:
    """Even when the partitioner has gone on to other rounds in the meantime."""
    partitioner = RandomPartitioner(2)
    rdd = images.partitionBy(2, partitioner).cache()
    before = layout_of(rdd)
    layout_of(rdd.partitionBy(2, partitionFunc=partitioner))
    rdd.unpersist(blocking=True)
    assert layout_of(rdd.map(lambda record: record)) == before
    fresh = images.partitionBy(numPartitions=2, partitionFunc=RandomPartitioner(2))
    assert layout_of(fresh) == before


def test_other_functions_and_partitioners_keep_sparks_behaviour(spark_context: Any) -> None:
    pairs = spark_context.parallelize([(i, i) for i in range(8)], 2)
    RandomPartitioner(2)
    parity = Parity(2)
    once = pairs.partitionBy(2, parity)
    assert layout_of(once) == [{0, 2, 4, 6}, {1, 3, 5, 7}]
    assert once.partitionBy(2, parity) is once
    assert layout_of(pairs.partitionBy(4)) == [{0, 4}, {1, 5}, {2, 6}, {3, 7}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).copy()),
        (np.arange(10)[::2], np.array([0, 2, 4, 6, 8])),
        (Vectors.dense(1.0, 2.0), Vectors.dense(1.0, 2.0)),
        ((1, ("a", np.ones(2))), (1, ("a", np.ones(2)))),
        (b"abc", bytes([97, 98, 99])),
        (None, None),
    ],
)
def test_equal_keys_have_equal_hashes(one: Any, other: Any) -> None:
    assert content_hash(one) == content_hash(other)


def test_other_keys_have_other_hashes() -> None:
    keys = [1, 2, "1", b"12", (1, 2), (2, 1), 1.5, np.ones(3), np.zeros(3), None, frozenset()]
    assert len({content_hash(key) for key in keys}) == len(keys)


def test_strings_hash_alike_in_every_process() -> None:
    """Python's own hash does not, unless PYTHONHASHSEED is set."""
    key = ("label", 3, 0.5)
    program = (
        "from tos_notebook.tensorspark.partitioner import content_hash;"
        f"print(content_hash({key!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
    )
    assert int(done.stdout) == content_hash(key)


def test_no_partitions_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        RandomPartitioner(0)


def test_the_base_class_leaves_the_rule_to_its_children() -> None:
    with pytest.raises(NotImplementedError, match="Partitioner does not say"):
        Partitioner(2)(1)
