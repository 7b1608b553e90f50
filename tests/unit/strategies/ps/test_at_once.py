"""Short merges with the center in one's hands: as exact as others, and no push waits for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.strategies.ps.test_center import MIXED, STRIPE, filled, push
from tos_notebook.combiners import ADAG, EASGD, Clip, Combiner, Downpour, DynSGD, Median
from tos_notebook.common import native
from tos_notebook.errors import CheckpointError, CombinerError, RemoteProtocolError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.stripes import STRIPE_BYTES

SHORT: list[Callable[[], Combiner]] = [Downpour, DynSGD, ADAG]


@pytest.fixture(autouse=True, params=["compiled", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with what is compiled for small pushes, and without."""
    if request.param == "python":
        monkeypatch.setattr(native, "extension", None)
    elif native.extension is None:
        pytest.skip("needs a C compiler when this package is installed")


class Own(Downpour):
    """A user's, which may take its time."""


def store(combiner: Combiner) -> Center:
    return Center(MIXED, filled(MIXED, 0), combiner, STRIPE, patience=0.001)


@pytest.mark.parametrize("short", SHORT)
def test_a_short_merge_is_equal_to_any_other(short: Callable[[], Combiner]) -> None:
    one, other = store(short()), store(short())
    for number in range(4):
        first, second = filled(MIXED, number), filled(MIXED, number)
        assert one.seize()
        merged = one.merge_seized(first, push(number // 2, steps=3))
        one.release()
        assert merged == other.merge(second, push(number // 2, steps=3))
        assert first.tobytes() == second.tobytes()
    assert one.center.tobytes() == other.center.tobytes()
    assert one.version == other.version == 4


@pytest.mark.parametrize("combiner", [EASGD(), Clip(1.0), Median(), Own()])
def test_only_rules_of_our_own_that_take_one_pass_are_short(combiner: Combiner) -> None:
    assert not store(combiner).seize()


def test_large_parameters_are_merged_stripe_by_stripe() -> None:
    layout = Layout([ParameterSpec("W", (STRIPE_BYTES // 4 + 16,), "float32")])
    assert not Center(layout, layout.allocate(), Downpour()).seize()


def test_a_center_that_is_in_use_is_not_waited_for_and_stays_as_it_is() -> None:
    center = store(Downpour())
    for lock in (center._gate, center._stripes[0].lock, center._stripes[-1].lock):
        with lock:
            assert not center.seize()
        assert center.merge(filled(MIXED, 1), push()).version == center.version


def test_what_is_released_is_free_for_all() -> None:
    center = store(Downpour())
    assert center.seize()
    assert not center.seize()
    center.release()
    assert center.merge(filled(MIXED, 1), push()).version == 1
    assert center.read()[1] == 1


def test_another_combiner_takes_over_only_between_two() -> None:
    center = store(Downpour())
    center.swap(Median())
    assert not center.seize()
    center.swap(ADAG())
    assert center.seize()
    center.release()


def test_a_sum_beyond_the_range_tears_the_center_as_ever() -> None:
    layout = Layout([ParameterSpec("W", (40,), "float32")])
    huge = layout.pack([np.full(40, 3e38, np.float32)])
    center = Center(layout, huge, Downpour())
    assert center.seize()
    with pytest.raises(CombinerError, match="within the range"):
        center.merge_seized(huge.copy(), push())
    center.release()
    with pytest.raises(CheckpointError):
        center.snapshot()


def test_a_base_version_in_the_future_changes_nothing() -> None:
    center = store(Downpour())
    before = center.center.tobytes()
    assert center.seize()
    with pytest.raises(RemoteProtocolError, match="at most 0"):
        center.merge_seized(filled(MIXED, 1), push(base=1))
    center.release()
    assert (center.version, center.center.tobytes()) == (0, before)
