"""What a shard tells a worker of an update before it is merged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.combiners import ADAG, EASGD, Combiner, Downpour, DynSGD, FedAvg, MultiKrum
from tos_notebook.common.arrays import Buffer
from tos_notebook.errors import CombinerError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.push import Push
from tos_notebook.strategies.ps.shards.center import ShardCenter

LAYOUT = Layout(
    [
        ParameterSpec("W", (7, 5), "float32"),
        ParameterSpec("h", (6,), "float16"),
        ParameterSpec("count", (3,), "int64"),
        ParameterSpec("mean", (5,), "float64", trained=False),
    ]
)
STRIPE = 64
"""Bytes: several stripes."""


class Own(Downpour):
    """A user's rule, which may do anything."""


def filled(seed: int) -> Buffer:
    random, buffer = np.random.default_rng(seed), LAYOUT.allocate()
    buffer[:] = 0
    for tensor in LAYOUT.tensors(buffer).values():
        tensor[...] = (100 * random.standard_normal(tensor.shape)).astype(tensor.dtype)
    return buffer


def at_version(combiner: Combiner, version: int) -> ShardCenter:
    center = ShardCenter(LAYOUT, filled(0), combiner, STRIPE)
    center.go_on(version, None)
    return center


@given(
    combiner=st.sampled_from([Downpour(), DynSGD(), DynSGD(0.5), ADAG()]),
    staleness=st.integers(0, 5),
    seed=st.integers(1, 1000),
)
def test_it_is_what_the_merge_makes_and_nothing_is_merged(
    combiner: Combiner, staleness: int, seed: int
) -> None:
    center, update, reply = at_version(combiner, 7), filled(seed), LAYOUT.allocate()
    reply[:] = 0
    push = Push(0, 7 - staleness, 5, 50, 2)
    assert center.preview(update, push, reply) == 8
    assert (update == filled(seed)).all()
    assert center.version == 7
    assert (center.read()[0] == at_version(combiner, 7).read()[0]).all()
    assert center.merge(update, push).version == 8
    assert (reply == update).all()


@pytest.mark.parametrize("combiner", [EASGD(), FedAvg(), MultiKrum(), Own()])
def test_rules_that_keep_something_or_are_not_ours_can_only_merge(combiner: Combiner) -> None:
    center = at_version(combiner, 0)
    assert center.preview(filled(1), Push(0, 0, 5, 50, 2), LAYOUT.allocate()) is None


def test_a_sum_beyond_the_dtypes_range_is_left_to_the_merge_which_reports_it() -> None:
    center, update = at_version(Downpour(), 0), filled(1)
    for vector in (center.center, update):
        LAYOUT.tensors(vector)["W"][...] = np.finfo(np.float32).max
    push = Push(0, 0, 5, 50, 2)
    assert center.preview(update, push, LAYOUT.allocate()) is None
    assert center.torn is None
    with pytest.raises(CombinerError, match="range"):
        center.merge(update, push)
