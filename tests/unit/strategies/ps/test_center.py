"""The center: exact under threads, untouched by failures, one version per reply."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.unit.combiners.support import Array
from tos_notebook.combiners import (
    ADAG,
    COMBINERS,
    EASGD,
    Combiner,
    Downpour,
    DynSGD,
    FedAsync,
    Part,
    PushInfo,
    as_combiner,
    get,
)
from tos_notebook.errors import (
    CheckpointError,
    CombinerError,
    LocalProtocolError,
    NonFiniteUpdate,
    RemoteProtocolError,
    WaitTimeout,
)
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Merge, Push
from tos_notebook.strategies.ps.stripes import Chain

MIXED = Layout(
    [
        ParameterSpec("W", (7, 5), "float32"),
        ParameterSpec("count", (), "int64"),
        ParameterSpec("b", (5,), "float64"),
        ParameterSpec("V", (3, 4), "float32"),
        ParameterSpec("h", (6,), "float16"),
        ParameterSpec("nothing", (0, 3), "float32"),
    ]
)
STRIPE = 64
"""Bytes: several stripes even in these small layouts."""


def push(base: int = 0, worker: int = 0, workers: int = 2, steps: int = 5, **given: Any) -> Push:
    return Push(worker, base, steps, samples=50, workers=workers, **given)


def filled(layout: Layout, seed: int) -> Array:
    random = np.random.default_rng(seed)
    tensors = [(random.standard_normal(s.shape) * 9).astype(s.dtype) for s in layout.specs]
    return layout.pack(tensors)


@contextmanager
def merging(store: Center, entered: threading.Event, leave: threading.Event) -> Iterator[None]:
    """Hold a merge where it has got to; it ends well once it may continue."""
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(store.merge, filled(MIXED, 1), push())
        assert entered.wait(timeout=30)
        try:
            yield
        finally:
            leave.set()
        assert merge.result(timeout=30).version == 1


def mixed_store(combiner: Any = "downpour") -> Center:
    return Center(MIXED, filled(MIXED, 0), as_combiner(combiner), STRIPE)


def values(store: Center) -> dict[str, Array]:
    return store.layout.tensors(store.read()[0])


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


class Elementwise(Combiner):
    """A user's DynSGD: takes the checked path instead of the striped one."""

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        update[...] = update / (push.staleness + 1)
        center += update
        update[...] = center


def test_a_new_store_holds_a_copy_of_the_initial_values_at_version_0() -> None:
    initial = filled(MIXED, 0)
    store = Center(MIXED, initial, Downpour(), STRIPE)
    initial[:] = 0
    buffer, version = store.read()
    assert (version, store.version) == (0, 0)
    assert same(MIXED.tensors(buffer), MIXED.tensors(filled(MIXED, 0)))


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_stripes_and_dtypes_make_no_difference_to_the_rule(name: str) -> None:
    """Three stale pushes through the store equal the rule on each whole tensor."""
    store, rule = mixed_store(name), get(name)
    expected = MIXED.tensors(filled(MIXED, 0))
    rules = {name: rule.begin(tensor) for name, tensor in expected.items()}
    for seed, base in enumerate([0, 0, 1]):
        update = filled(MIXED, seed + 1)
        reply = MIXED.tensors(update.copy())
        info = PushInfo(0, staleness=seed - base, steps=1, samples=50, workers=1, pushes=seed)
        parts = [Part(rules[name], expected[name], reply[name]) for name in rules]
        rule.prepare(parts, info)
        for part in parts:
            part.rule.merge(part.center, part.update, info)
        assert store.merge(update, push(base, workers=1, steps=1)) == Merge(seed + 1, seed - base)
        assert same(MIXED.tensors(update), reply)
    assert same(values(store), expected)


def test_a_users_rule_on_whole_tensors_equals_the_striped_one() -> None:
    striped, checked = mixed_store(DynSGD()), mixed_store(Elementwise())
    for seed, base in enumerate([0, 0, 1]):
        updates = filled(MIXED, seed + 1), filled(MIXED, seed + 1)
        for update in updates:  # integers are rounded in another way
            MIXED.tensors(update)["count"][...] = 0
        assert striped.merge(updates[0], push(base)) == checked.merge(updates[1], push(base))
        assert same(MIXED.tensors(updates[0]), MIXED.tensors(updates[1]))
    assert same(values(striped), values(checked))


def test_the_original_compute_sees_each_named_tensor_in_its_shape() -> None:
    seen = []

    class Mine:
        def compute(self, origin: Array, new: Array, worker: int, name: str) -> Array:
            seen.append((name, origin.shape, origin.dtype == new.dtype, worker))
            return (origin + new) / 2

    store = mixed_store(Mine())
    before = values(store)
    update = filled(MIXED, 1)
    pushed = MIXED.tensors(update.copy())
    store.merge(update, push(worker=4))
    assert seen == [(spec.name, spec.shape, True, 4) for spec in MIXED.specs]
    np.testing.assert_array_equal(values(store)["W"], (before["W"] + pushed["W"]) / 2)
    assert same(values(store), MIXED.tensors(update))


WIDE = Layout([ParameterSpec("W", (40, 50), "float64"), ParameterSpec("n", (300,), "int64")])


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in threads that start together; raise what any of them raised."""
    start = threading.Barrier(count)

    def run(index: int) -> None:
        start.wait(timeout=30)
        work(index)

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(run, index) for index in range(count)]:
            future.result(timeout=60)


def whole_numbers(seed: int) -> Array:
    random = np.random.default_rng(seed)
    return WIDE.pack([random.integers(-99, 99, s.shape).astype(s.dtype) for s in WIDE.specs])


@pytest.mark.parametrize(
    "rule", [Downpour(), as_combiner(lambda c, u, p: c + u)], ids=["class", "function"]
)
def test_no_update_of_many_threads_is_lost(rule: Combiner) -> None:
    store = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=512)

    def work(worker: int) -> None:
        for step in range(25):
            store.merge(whole_numbers(worker * 100 + step), push(store.version))

    in_threads(8, work)
    total = {spec.name: np.zeros(spec.shape) for spec in WIDE.specs}
    for seed in (worker * 100 + step for worker in range(8) for step in range(25)):
        for name, tensor in WIDE.tensors(whole_numbers(seed)).items():
            total[name] += tensor
    assert same(values(store), total)
    assert store.version == 200


@pytest.mark.parametrize("rule", [DynSGD(), EASGD(0.3), FedAsync()], ids=repr)
def test_concurrent_pushes_equal_the_same_pushes_one_by_one(rule: Combiner) -> None:
    """Every reply is, to the bit, what it had been if pushes came in their versions' order."""
    store = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=512)
    log: dict[int, tuple[int, int, Array]] = {}
    reads: list[tuple[Array, int]] = []

    def work(worker: int) -> None:
        base = 0
        for step in range(20):
            seed = worker * 100 + step
            update = whole_numbers(seed)
            done = store.merge(update, push(base, worker))
            log[done.version] = seed, base, update
            base = done.version
            reads.append(store.read())

    in_threads(6, work)
    replay = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=1 << 20)
    centers = {}
    for version in range(1, 121):
        seed, base, reply = log[version]
        update = whole_numbers(seed)
        assert replay.merge(update, push(base, seed // 100)).version == version
        np.testing.assert_array_equal(update, reply)
        centers[version] = replay.read()[0]
    for buffer, version in reads:
        np.testing.assert_array_equal(buffer, centers[version])


class NotedLock:
    """A lock that writes down what happens to it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.log.append(f"take {self.name}")
        return True

    def release(self) -> None:
        self.log.append(f"leave {self.name}")


def test_the_next_lock_is_taken_before_the_last_is_left() -> None:
    """Otherwise one merge could overtake another between two stripes."""
    log: list[str] = []
    gate, first, second = (NotedLock(name, log) for name in ("gate", "1", "2"))
    with Chain(gate, 1, lambda: "rule") as chain:  # type: ignore[arg-type]
        chain.advance(first)  # type: ignore[arg-type]
        chain.advance(second)  # type: ignore[arg-type]
    assert log == ["take gate", "take 1", "leave gate", "take 2", "leave 1", "leave 2"]


def test_a_rule_for_whole_tensors_waits_for_merges_under_way() -> None:
    """Their later stripes would otherwise change under it."""
    entered, leave = threading.Event(), threading.Event()

    class StopsAtTheLastStripe(Downpour):
        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            super().merge(center, update, push)
            if center.dtype == np.float16:
                entered.set()
                leave.wait(timeout=30)

    store = Center(MIXED, filled(MIXED, 0), StopsAtTheLastStripe(), STRIPE, patience=0.001)
    with merging(store, entered, leave):
        store.swap(Elementwise())
        with pytest.raises(WaitTimeout):
            store.merge(filled(MIXED, 2), push())
    assert store.merge(filled(MIXED, 2), push(1)).version == 2


def raises(center: Array, update: Array, push: PushInfo) -> Array:
    raise ZeroDivisionError("mine")


def last_is_infinite(center: Array, update: Array, push: PushInfo) -> Array:
    return center + (np.inf if center.dtype == np.float16 else 1)


class RaisesLate(Combiner):
    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        center += 1
        if center.dtype == np.float16:
            raise ZeroDivisionError("mine")


@pytest.mark.parametrize(
    ("rule", "error", "tensor"),
    [
        (raises, CombinerError, "W"),
        (last_is_infinite, NonFiniteUpdate, "h"),
        (RaisesLate(), CombinerError, "h"),
        (lambda c, u, p: c.reshape(-1), CombinerError, "W"),
    ],
)
def test_a_combiner_that_fails_leaves_centre_and_version(
    rule: Any, error: type[Exception], tensor: str
) -> None:
    store = mixed_store(rule)
    before = values(store)
    with pytest.raises(error, match=f"parameter '{tensor}'"):
        store.merge(filled(MIXED, 1), push())
    assert same(values(store), before)
    assert store.version == 0
    store.swap(Downpour())
    assert store.merge(filled(MIXED, 1), push()).version == 1


def test_a_striped_combiner_that_breaks_its_promise_is_named_and_frees_the_locks() -> None:
    class Liar(Combiner):
        striped = True

        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            raise ZeroDivisionError("mine")

    store = mixed_store(Liar())
    with pytest.raises(CombinerError, match=r"Liar raised ZeroDivisionError: mine.*striped"):
        store.merge(filled(MIXED, 1), push())
    store.swap(ADAG())
    assert store.merge(filled(MIXED, 1), push(1)).version == 2


def test_a_push_waits_for_a_hanging_combiner_only_so_long() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hangs(center: Array, update: Array, push: PushInfo) -> Array:
        entered.set()
        leave.wait(timeout=30)
        return center

    store = Center(MIXED, filled(MIXED, 0), as_combiner(hangs), STRIPE, patience=0.001)
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(store.merge, filled(MIXED, 1), push())
        assert entered.wait(timeout=30)
        try:
            with pytest.raises(WaitTimeout, match=r"within 0\.001 s: combiner hangs"):
                store.merge(filled(MIXED, 1), push())
            # Nothing of it is in the center yet, so to read that takes no waiting.
            center, version = store.read()
            assert (version, same(MIXED.tensors(center), MIXED.tensors(filled(MIXED, 0)))) == (0, 1)
        finally:
            leave.set()
        assert merge.result(timeout=30).version == 1
    assert store.read()[1] == 1


class RaisesAt(Downpour):
    """Adds changes, and raises where the parameters are of one dtype."""

    def __init__(self, dtype: str, error: BaseException | None = None) -> None:
        self.dtype, self.error = dtype, error or MemoryError("full")

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        if center.dtype == self.dtype:
            raise self.error
        super().merge(center, update, push)


def test_a_store_with_a_push_merged_in_part_is_never_copied() -> None:
    store = mixed_store(RaisesAt("int64"))
    before = values(store)
    with pytest.raises(CombinerError, match=r"MemoryError: full.*tos\.resume continues"):
        store.merge(filled(MIXED, 1), push())
    assert not same(values(store), before)
    store.swap(Downpour())
    store.merge(filled(MIXED, 2), push(1))
    with pytest.raises(CheckpointError, match="RaisesAt has merged a push in part"):
        store.snapshot()


def test_a_copy_that_follows_behind_a_push_that_fails_is_refused() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Waits(RaisesAt):
        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            if center.dtype == "int64":
                entered.set()
                assert leave.wait(timeout=30)
            super().merge(center, update, push)

    store = mixed_store(Waits("int64"))
    with ThreadPoolExecutor(2) as pool:
        merge = pool.submit(store.merge, filled(MIXED, 1), push())
        assert entered.wait(timeout=30)
        inside = threading.Event()
        copy = pool.submit(store.snapshot, inside.set)
        assert inside.wait(timeout=30)
        leave.set()
        for future, error in ((merge, CombinerError), (copy, CheckpointError)):
            with pytest.raises(error):
                future.result(timeout=30)


def test_a_push_that_never_got_to_the_first_stripe_leaves_all_as_it_was() -> None:
    store = Center(MIXED, filled(MIXED, 0), Downpour(), STRIPE, patience=0.001)
    before = values(store)
    with store._stripes[0].lock, pytest.raises(WaitTimeout):
        store.merge(filled(MIXED, 1), push())
    assert (store.snapshot().version, same(values(store), before)) == (0, True)
    assert store.merge(filled(MIXED, 1), push()).version == 1


def test_the_push_tells_the_combiner_what_it_knows() -> None:
    infos = []

    def rule(center: Array, update: Array, push: PushInfo) -> Array:
        infos.append(push)
        return center

    store = Center(WIDE, WIDE.allocate(), as_combiner(rule))
    store.merge(WIDE.allocate(), Push(worker=0, base_version=0, steps=1, samples=8, workers=2))
    store.merge(WIDE.allocate(), Push(worker=3, base_version=0, steps=5, samples=40, workers=4))
    assert infos[-1] == PushInfo(3, staleness=1, steps=5, samples=40, workers=4, pushes=1)


def test_a_base_version_in_the_future_is_refused() -> None:
    store = mixed_store()
    with pytest.raises(RemoteProtocolError, match="at most 0, got 1"):
        store.merge(filled(MIXED, 1), push(base=1))
    assert store.version == 0


@pytest.mark.parametrize("bad", [np.zeros(3, np.uint8), np.zeros(MIXED.nbytes, np.int8)])
def test_a_buffer_of_another_size_or_dtype_is_refused(bad: Any) -> None:
    store = mixed_store()
    calls = [store.read, store.load, lambda b: store.merge(b, push())]
    for call in calls:
        with pytest.raises(LocalProtocolError, match=rf"\({MIXED.nbytes},\) of uint8, got"):
            call(bad)


@pytest.mark.parametrize(
    ("tensor", "bad"), [("V", np.nan), ("b", np.inf), ("h", -np.inf), ("W", np.nan)]
)
def test_a_non_finite_update_is_found_by_name_and_count(tensor: str, bad: float) -> None:
    store, update = mixed_store(), filled(MIXED, 1)
    MIXED.tensors(update)[tensor].reshape(-1)[-2:] = bad
    size = MIXED.tensors(update)[tensor].size
    with pytest.raises(NonFiniteUpdate, match=rf"'{tensor}': .*got 2 of {size} .*infinite\. "):
        store.merge(update, push(finite=False))
    assert store.version == 0


def test_the_first_of_several_non_finite_parameters_is_named() -> None:
    store, update = mixed_store(), filled(MIXED, 1)
    for tensor in ("h", "V", "b"):
        MIXED.tensors(update)[tensor].reshape(-1)[0] = np.nan
    with pytest.raises(NonFiniteUpdate, match=r"'b': .* 2 other parameters"):
        store.merge(update, push(finite=False))


def test_large_finite_values_are_finite() -> None:
    store = mixed_store()
    update = MIXED.allocate()
    largest = [np.full(s.shape, 6e4 if s.dtype == "float16" else 3e38) for s in MIXED.specs]
    largest[1] = np.array(2**62)
    MIXED.pack([a.astype(s.dtype) for a, s in zip(largest, MIXED.specs, strict=True)], update)
    with np.errstate(over="ignore"):
        assert store.merge(update, push(finite=False)).version == 1


def test_load_replaces_the_centre_and_keeps_the_version() -> None:
    store = mixed_store()
    store.merge(filled(MIXED, 1), push())
    store.load(filled(MIXED, 2))
    assert same(values(store), MIXED.tensors(filled(MIXED, 2)))
    assert store.version == 1


def test_read_fills_a_given_buffer() -> None:
    store, out = mixed_store(), MIXED.allocate()
    buffer, _ = store.read(out)
    assert buffer is out
    assert same(MIXED.tensors(out), MIXED.tensors(filled(MIXED, 0)))


def test_a_swapped_combiner_takes_the_next_push() -> None:
    store = Center(WIDE, WIDE.allocate(), Downpour())
    store.swap(FedAsync(alpha=0.5, a=0))
    store.merge(ones := WIDE.pack([np.ones(s.shape, s.dtype) for s in WIDE.specs]), push())
    assert repr(store.combiner) == "FedAsync(alpha=0.5, a=0)"
    assert values(store)["W"].max() == WIDE.tensors(ones)["W"].max() == 0.5


def test_a_change_pushed_before_a_swap_to_weights_is_still_added() -> None:
    """Taken for weights, it would pull the center to zero."""
    store = Center(WIDE, WIDE.allocate(), Downpour())
    for _ in range(2):
        store.merge(WIDE.pack([np.ones(s.shape, s.dtype) for s in WIDE.specs]), push())
        store.swap(EASGD())
        late = WIDE.pack([np.ones(s.shape, s.dtype) for s in WIDE.specs])
        store.merge(late, push(pushes="delta"))
        store.swap(Downpour())
    assert values(store)["W"].min() == 4


def test_a_push_of_a_kind_that_was_never_asked_for_is_refused() -> None:
    store = mixed_store()
    with pytest.raises(RemoteProtocolError, match="pushed 'weights'; expected 'delta'"):
        store.merge(filled(MIXED, 1), push(pushes="weights"))


@pytest.mark.parametrize("name", [n for n, rule in COMBINERS.items() if rule.pushes == "delta"])
def test_statistics_take_the_change_itself_whatever_the_rule_makes_of_trained_parameters(
    name: str,
) -> None:
    """A moving average is no gradient: no momentum, no division by steps, no adaptive step."""
    layout = Layout(
        [
            ParameterSpec("kernel", (3,), "float32"),
            ParameterSpec("mean", (3,), "float32", trained=False),
        ]
    )
    store = Center(layout, layout.allocate(), get(name))
    total = np.zeros(3, np.float32)
    for version in range(3):
        change = np.array([1.0, -2.0, 300.0], np.float32)
        update = layout.pack([change, change])
        store.merge(update, push(version, workers=1, steps=1 if name == "dcasgd" else 5))
        total += change
    np.testing.assert_allclose(layout.tensors(store.center)["mean"], total)


def test_a_state_with_statistics_is_restored() -> None:
    specs = [
        ParameterSpec("kernel", (3,), "float32"),
        ParameterSpec("mean", (3,), "float32", False),
    ]
    layout = Layout(specs)
    store, other = (Center(layout, layout.allocate(), get("fedadam")) for _ in range(2))
    store.merge(filled(layout, 0), push(workers=2))
    other.restore(store.snapshot())
    for each in (store, other):
        each.merge(filled(layout, 1), push(1, worker=1))
    assert np.array_equal(store.center, other.center)
