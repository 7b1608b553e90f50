"""Ledger, center, combiner state, settings and checkpoints agree, whatever comes in which order.

A run without Spark and sockets: the real `Coordinator` over a real `Center`. Its updates say which
batches they hold, so the center shows what was merged, and how often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.combiners.support import Array
from tests.unit.training.checkpoint.test_writer import origin
from tests.unit.worker.support import Bench, finish, join, numbers, of, push
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.combiners import Combiner, Downpour, PushInfo, StatefulCombiner
from tos_notebook.common.content import DIGEST_SIZE, NO_DIGEST
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.job_span import DataLayout, JobSpan
from tos_notebook.coordination.membership import Member
from tos_notebook.coordination.settings import Settings
from tos_notebook.coordination.snapshots import Asked, RunPosition
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import CheckpointError, DataError, SessionClosed
from tos_notebook.events import EpochFinished, Event
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.persist.sealed import decode, encode
from tos_notebook.steering.machine import Command
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Copied
from tos_notebook.strategies.ps.rules import Bound
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.trainer import ServerTrainer
from tos_notebook.training.checkpoint.contents import from_sealed, to_parts
from tos_notebook.wire.messages import Directive, Loaded

EPOCHS, MOST, BATCHES = 3, 3, 4
"""Epochs, partitions at most, and batches of each of them in each epoch."""

LAYOUT = Layout(
    [
        ParameterSpec("whole", (EPOCHS, MOST, BATCHES), "int64"),
        ParameterSpec("real", (EPOCHS, MOST, BATCHES), "float64"),
    ]
)
STRIPE = 128
"""Bytes: three stripes for each parameter."""


# -- what can happen within a merge -------------------------------------------------------


class Unforeseen(Exception):
    """For what is raised where no combiner is blamed."""


@dataclass
class Fuse:
    """What comes while a push is merged, and where the merge fails."""

    meanwhile: Callable[[], object] | None = None
    error: Exception | None = None
    left: int = 0
    """Calls of `merge` before the error."""

    def burn(self) -> None:
        """Let it happen; called by each merge of a stripe or a tensor."""
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        if self.error is not None:
            self.left -= 1
            if self.left < 0:
                error, self.error = self.error, None
                raise error


FUSE = Fuse()


class Opaque:
    """What numpy cannot look into."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Unforeseen


class Adds(Downpour):
    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        FUSE.burn()
        super().merge(center, update, push)


class Tallies(StatefulCombiner):
    """Adds changes, and keeps their sum since it began, and whose state that is."""

    striped = True

    def reset(self, like: Array) -> None:
        self.total, self.owner = np.zeros_like(like), type(self).__name__

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        FUSE.burn()
        self.total += update
        center += update
        update[...] = center


class Counts(Tallies):
    """Another rule, whose state has the same names."""


class Whole(Tallies):
    """One that merges into copies."""

    striped = False

    def propose(self, name: str, center: Array, update: Array, push: PushInfo) -> Any:
        try:
            return super().propose(name, center, update, push)
        except Unforeseen:
            return Opaque(), update


class WholeToo(Whole):
    """Another one of those."""


class AtOnce(Adds):
    """One that is merged in the same step in which a push is admitted and answered."""


RULES: dict[str, type[Combiner]] = {
    c.__name__: c for c in (Adds, AtOnce, Tallies, Counts, Whole, WholeToo)
}


class Interrupted(Center):
    """A store between whose steps something else may come."""

    before_copy: Callable[[], object] | None = None
    after_swap: Callable[[], object] | None = None

    def _bind(self, combiner: Combiner) -> Bound:
        return super()._bind(combiner)._replace(at_once=isinstance(combiner, AtOnce))

    def snapshot(self, *args: Any) -> Copied:
        act, self.before_copy = self.before_copy, None
        if act is not None:
            act()
        return super().snapshot(*args)

    def swap(self, *args: Any) -> None:
        super().swap(*args)
        act, self.after_swap = self.after_swap, None
        if act is not None:
            act()


# -- the run ------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Attempt:
    """A worker as it sees itself."""

    member: Member
    task: int
    epoch: int
    steps: int
    sequence: int
    version: int
    """Of the settings."""
    last: tuple[Any, Array] | None = None
    """A push whose reply got lost: it comes again before anything else."""

    def __repr__(self) -> str:
        again = ", again" if self.last else ""
        return f"<task {self.task} at {self.epoch, self.member.partition, self.steps}{again}>"


@dataclass
class Saved:
    """A checkpoint, and what the machine knows of that moment."""

    file: bytes
    partitions: list[int]
    base: Array
    pushes: int
    left_out: set[tuple[int, int, int]]
    known: set[int]
    """Partitions whose rows are known."""
    asked: int | None
    rates: set[float | None] = field(default_factory=set)


def batches(epoch: int, partition: int, steps: range, finite: bool = True) -> Array:
    """Return the update of some batches: 1 for each of them, or NaN."""
    change = np.zeros((EPOCHS, MOST, BATCHES))
    change[epoch, partition, steps] = 1
    return LAYOUT.pack([change.astype(np.int64), change if finite else change * np.nan])


def digest_of(*rows: Any) -> bytes:
    """Return the digest of rows that are described by a value."""
    return hashlib.blake2b(repr(rows).encode(), digest_size=DIGEST_SIZE).digest()


class Cluster(RuleBasedStateMachine):
    """Workers push, die and return; users steer; checkpoints are written and resumed from."""

    training: Coordinator
    store: Interrupted
    span: JobSpan
    saved: Saved
    streamed: bool
    """Whether the rows are made by functions of datasets."""
    non_finite: Literal["raise", "skip"]

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[Attempt] = []
        self.next_task = self.pushes = 0
        # Of each epoch so far.
        self.partitions = [2] * EPOCHS
        self.asked: int | None = None
        self.base = LAYOUT.allocate()
        # Epoch, partition and batch of updates that were not finite.
        self.left_out: set[tuple[int, int, int]] = set()
        self.events: list[Event] = []
        FUSE.meanwhile = FUSE.error = None

    @initialize(
        kind=st.sampled_from(sorted(RULES)),
        streamed=st.booleans(),
        non_finite=st.sampled_from(["raise", "skip"]),
    )
    def start(self, kind: str, streamed: bool, non_finite: Literal["raise", "skip"]) -> None:
        self.streamed, self.non_finite = streamed, non_finite
        self.make(RULES[kind](), None)
        self.begin(0, None)
        self.save(None, "Adds")

    def make(self, combiner: Combiner, rate: float | None) -> None:
        self.store = Interrupted(LAYOUT, LAYOUT.allocate(), combiner, STRIPE, patience=0.1)
        self.events.clear()
        self.training = Bench(
            "run",
            ServerTrainer(self.store, self.non_finite),
            Settings(ServerSettings(combiner), 1, learning_rate=rate),
            self.events.append,
            lambda task: (f"executor-{task}", "?"),
            lambda: None,
        )

    def begin(self, epoch: int, layout: DataLayout | None, last: int = EPOCHS - 1) -> None:
        """Let a Spark job begin, over as many partitions as are due."""
        source = ArraySource((numbers(MOST * BATCHES),), self.partitions[epoch])
        self.span = self.training.begin_span(source, epoch, last, layout)
        self.attempts.clear()
        for partition in range(self.partitions[epoch]):
            self.enter(partition)

    def enter(self, partition: int, task: int | None = None) -> None:
        """Let Spark start a task, or let one come back by another connection."""
        if task is None:
            task, self.next_task = self.next_task, self.next_task + 1
        member, joined = self.training.join(join(partition, task), False)
        if joined.directive in (Directive.GO, Directive.WAIT):
            place = joined.epoch, joined.steps, joined.sequence, joined.settings_version
            attempt = Attempt(member, task, *place)
            self.attempts.append(attempt)
            message = self.rows_of(attempt)
            if message is not None:
                proceed = self.training.loaded(member, message)
                assert proceed.directive is Directive.WAIT, self.training.error

    def rows_of(self, attempt: Attempt, *changed: str) -> Loaded | None:
        """Return what a worker says of its rows; None of a stream of which none are trained."""
        partition, layout = attempt.member.partition, self.span.layout
        if self.streamed:
            digest = digest_of(attempt.epoch, partition, attempt.steps, *changed)
            return Loaded(attempt.steps, digest.hex(), True) if attempt.steps else None
        place = layout and (layout.partitions, layout.epoch)
        return Loaded(BATCHES, digest_of(place, partition, *changed).hex(), False)

    # -- workers ----------------------------------------------------------------------

    @precondition(lambda self: any(a.steps < BATCHES or a.last for a in self.attempts))
    @rule(
        data=st.data(),
        steps=st.integers(1, BATCHES),
        lost=st.booleans(),
        meanwhile=st.sampled_from(["", "", "another attempt", "the same task", "supersede"]),
        error=st.sampled_from([None, None, None, MemoryError("full"), Unforeseen()]),
        stripe=st.integers(0, 5),
        finite=st.sampled_from([True, True, True, False]),
    )
    def push(
        self,
        data: Any,
        steps: int,
        lost: bool,
        meanwhile: str,
        error: Any,
        stripe: int,
        finite: bool,
    ) -> None:
        able = [a for a in self.attempts if a.steps < BATCHES or a.last]
        attempt = data.draw(st.sampled_from(able))
        message, update = attempt.last or self.next_push(attempt, steps, finite)
        if meanwhile == "supersede":
            FUSE.meanwhile = lambda: self.training.supersede(attempt.member, "stands still")
        elif meanwhile:
            task = attempt.task if meanwhile == "the same task" else None
            FUSE.meanwhile = lambda: self.enter_if_possible(attempt.member.partition, task)
        FUSE.error, FUSE.left = error, stripe
        before, committed = self.store.version, self.committed(attempt)
        try:
            reply = self.training.push(attempt.member, message, update.copy())
        except Unforeseen:
            self.die(attempt)
            return
        finally:
            FUSE.meanwhile = FUSE.error = None
        if not self.training.machine.active:
            self.end()
            return
        if not message.finite:
            place = attempt.epoch, attempt.member.partition
            new = range(committed, self.committed(attempt))
            self.left_out |= {(*place, step) for step in new}
        self.pushes += self.store.version - before
        attempt.version = reply.settings_version
        attempt.last = (message, update) if lost else None
        if reply.directive is Directive.STOP:
            self.attempts.remove(attempt)
        elif not lost:
            attempt.steps += message.steps
            attempt.sequence += 1

    def committed(self, attempt: Attempt) -> int:
        place = attempt.epoch, attempt.member.partition
        return self.training.state.ledger.committed(*place).steps

    def next_push(self, attempt: Attempt, steps: int, finite: bool = True) -> tuple[Any, Array]:
        steps = min(steps, BATCHES - attempt.steps)
        trained = range(attempt.steps, attempt.steps + steps)
        place = attempt.epoch, attempt.member.partition
        message = push(
            attempt.sequence,
            epoch=attempt.epoch,
            steps=steps,
            samples=steps,
            base_version=self.store.version,
            settings_version=attempt.version,
            finite=finite,
            digest=digest_of(*place, trained.stop) if self.streamed else NO_DIGEST,
        )
        return message, batches(*place, trained, finite)

    def enter_if_possible(self, partition: int, task: int | None) -> None:
        try:
            self.enter(partition, task)
        except SessionClosed:
            assert task is not None, "only an attempt that is superseded is refused"

    @precondition(lambda self: any(a.steps == BATCHES and not a.last for a in self.attempts))
    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        able = [a for a in self.attempts if a.steps == BATCHES and not a.last]
        attempt = data.draw(st.sampled_from(able))
        try:
            proceed = self.training.finish(attempt.member, finish(attempt.epoch, BATCHES, BATCHES))
        except SessionClosed:
            self.attempts.remove(attempt)
            return
        if proceed.directive is not Directive.GO:
            self.attempts.remove(attempt)
            return
        attempt.epoch, attempt.steps, attempt.sequence = attempt.epoch + 1, 0, 0
        attempt.version = proceed.settings_version

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        self.die(data.draw(st.sampled_from(self.attempts)))

    def die(self, attempt: Attempt) -> None:
        self.training.lost(attempt.member, "killed")
        self.attempts.remove(attempt)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def supersede(self, data: Any) -> None:
        """Take the partition of one that stands still; it does not know, and may push again."""
        attempt = data.draw(st.sampled_from(self.attempts))
        self.training.supersede(attempt.member, "stands still")

    @rule(data=st.data())
    def another_attempt(self, data: Any) -> None:
        """As Spark does after a loss, or on the side: then the earlier one lives on."""
        count = self.partitions[self.span.first_epoch]
        self.enter(data.draw(st.integers(0, count - 1)))

    @rule(data=st.data())
    def another_attempt_ends_the_epoch(self, data: Any) -> None:
        known, count = len(self.attempts), self.partitions[self.span.first_epoch]
        self.enter(data.draw(st.integers(0, count - 1)))
        for attempt in self.attempts[known:]:
            self.work(attempt)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def other_rows(self, data: Any) -> None:
        """A later attempt finds other rows than those that are trained: that ends the run."""
        attempt = data.draw(st.sampled_from(self.attempts))
        partition, known = attempt.member.partition, len(self.attempts)
        self.enter(partition)
        if len(self.attempts) == known:
            return
        later = self.attempts[-1]
        message = self.rows_of(later, "changed")
        if message is None:
            return
        assert self.training.loaded(later.member, message).directive is Directive.LEAVE
        assert isinstance(self.training.error, DataError)
        assert not self.training.machine.active
        self.end()

    # -- users ------------------------------------------------------------------------

    @rule(kind=st.sampled_from(sorted(RULES)), saves=st.booleans())
    def swap(self, kind: str, saves: bool) -> None:
        if saves:
            self.store.after_swap = lambda: self.save(None, kind)
        self.base = self.store.read()[0]
        combiner = RULES[kind]()
        self.training.change_settings(Command.SWAP_COMBINER, kind, combiner=combiner)

    @rule(rate=st.floats(0.1, 1))
    def set(self, rate: float) -> None:
        self.training.change_settings(Command.SET, "", learning_rate=rate)

    @rule(partitions=st.integers(1, MOST))
    def repartition(self, partitions: int) -> None:
        self.asked = partitions
        self.training.end_span_early(Command.REPARTITION, "")

    @precondition(lambda self: self.training.has_trained(self.span) and not self.over())
    @rule()
    def next_leg(self) -> None:
        self.lay_out(self.span.last_epoch + 1, self.span.layout)

    def lay_out(self, epoch: int, layout: DataLayout | None) -> None:
        wanted, self.asked = self.wanted(), None
        if wanted is not None:
            self.partitions[epoch:] = [wanted[0]] * (EPOCHS - epoch)
            layout = DataLayout(*wanted, epoch)
        self.begin(epoch, layout)

    def wanted(self) -> Asked | None:
        """Return a repartition that is still to be done."""
        asked = self.asked
        return None if asked is None else (asked, RandomPartitioner(asked, 0))

    def over(self) -> bool:
        return self.span.last_epoch == EPOCHS - 1

    # -- checkpoints ------------------------------------------------------------------

    @rule(
        meanwhile=st.sampled_from([None, "swap", "swap", "set", "join"]),
        kind=st.sampled_from(sorted(RULES)),
    )
    def save(self, meanwhile: str | None, kind: str) -> None:
        """Write a checkpoint; something else comes before the store is copied."""
        self.store.before_copy = {
            "swap": lambda: self.swap(kind, False),
            "set": lambda: self.set(0.5),
            "join": lambda: self.enter(0),
        }.get(meanwhile or "")
        rates = {self.training.settings.learning_rate}
        known = set(self.training.state.ledger.contents.held)
        snapshot = self.training.snapshot(self.wanted)
        if snapshot is None:
            # A resumed run does not know yet that its streams are the same.
            assert self.streamed
            return
        value, arrays = to_parts(origin(), snapshot, snapshot.asked, ())
        file = encode({}, value, arrays)
        rates.add(self.training.settings.learning_rate)
        counted = self.base, self.pushes, self.left_out.copy(), known
        self.saved = Saved(file, self.partitions[:], *counted, self.asked, rates)

    def end(self) -> None:
        """Write the last checkpoint of a run that failed, if one can be, and resume."""
        with suppress(CheckpointError):
            self.save(None, "")
        self.resume()

    @rule()
    def resume(self) -> None:
        """Let another process go on from the newest checkpoint."""
        reached = self.restore()
        if reached is None:
            return
        if reached.between:
            self.lay_out(reached.epoch, reached.layout)
            return
        latest = max(reached.epoch, self.training.latest_epoch)
        last = EPOCHS - 1 if self.asked is None else latest
        self.begin(reached.epoch, reached.layout, last)

    @rule()
    def resume_with_other_rows(self) -> None:
        """The first rows that come are others than those of before: that ends the run."""
        reached = self.restore()
        if reached is not None and not reached.between:
            source = ArraySource((numbers(MOST * BATCHES),), self.partitions[reached.epoch])
            self.span = self.training.begin_span(source, reached.epoch, EPOCHS - 1, reached.layout)
            member, joined = self.training.join(join(0, self.next_task), False)
            found = Attempt(member, self.next_task, joined.epoch, joined.steps, 0, 0)
            message = self.rows_of(found, "changed")
            known = self.streamed or 0 in self.saved.known
            if message is not None and known and joined.directive is Directive.WAIT:
                answer = self.training.loaded(member, message)
                assert answer.directive is Directive.LEAVE
                assert isinstance(self.training.error, DataError)
        self.resume()

    def restore(self) -> RunPosition | None:
        """Restore the newest checkpoint; return where it is, None if nothing is left to do."""
        saved = self.saved
        checkpoint = from_sealed(decode(saved.file, "file"), "file")
        reached = checkpoint.progress.reached
        if reached.epoch == EPOCHS:
            return None
        self.pushes, self.base, self.partitions = saved.pushes, saved.base, saved.partitions[:]
        self.left_out = saved.left_out.copy()
        self.asked = checkpoint.asked and checkpoint.asked[0]
        assert self.asked == saved.asked
        found = checkpoint.settings_with(RULES[checkpoint.settings.shown["combiner"]]())
        assert found.learning_rate in saved.rates
        self.make(found.strategy.combiner, found.learning_rate)
        self.training.restore(checkpoint.progress)
        return reached

    # -- what always holds --------------------------------------------------------------

    @invariant()
    def every_batch_of_the_ledger_is_in_the_center_once(self) -> None:
        expected = np.zeros((EPOCHS, MOST, BATCHES))
        ledger, begun = self.training.state.ledger, self.span.first_epoch
        for epoch, partitions in enumerate(self.partitions):
            for partition in range(partitions):
                # A checkpoint leaves out what is done before its first open epoch.
                done = BATCHES if epoch < begun else ledger.committed(epoch, partition).steps
                expected[epoch, partition, :done] = 1
        for place in self.left_out:
            expected[place] = 0
        center, version = self.store.read()
        for tensor in LAYOUT.tensors(center).values():
            np.testing.assert_array_equal(tensor, expected)
        assert version == self.store.version == self.pushes

    @invariant()
    def epochs_and_rows_are_counted_once(self) -> None:
        finished = of(EpochFinished, self.events)
        assert len({event.epoch for event in finished}) == len(finished)
        for event in finished:
            assert event.samples == BATCHES * self.partitions[event.epoch]
        assert set(self.training.state.rows.counts.values()) <= {BATCHES}

    @invariant()
    def the_rule_is_that_of_the_settings_with_its_own_state(self) -> None:
        combiner, bound = self.training.settings.strategy.combiner, self.store._bound
        assert self.store.combiner is combiner
        rules: list[Any] = [*bound.stripes, *bound.tensors.values()]
        assert {type(each) for each in rules} == {type(combiner)}
        if isinstance(combiner, Tallies):
            assert {each.owner for each in rules} == {type(combiner).__name__}
            merged = sum(each.total.sum() for each in rules)
            tensors = zip(*(LAYOUT.tensors(b).values() for b in self.both()), strict=True)
            assert merged == sum((now - then).sum() for now, then in tensors)

    def both(self) -> tuple[Array, Array]:
        return self.store.read()[0], self.base

    def teardown(self) -> None:
        """Train to the end: nothing may be missing then, and nothing be there twice."""
        if not hasattr(self, "training"):
            return
        FUSE.meanwhile = FUSE.error = None
        while True:
            for partition in range(self.partitions[self.span.first_epoch]):
                self.attempts.clear()
                self.enter(partition)
                while self.attempts:
                    self.work(self.attempts[0])
            if self.over():
                break
            self.next_leg()
        self.every_batch_of_the_ledger_is_in_the_center_once()
        self.epochs_and_rows_are_counted_once()
        assert all(
            self.training.state.ledger.epoch_done(EPOCHS - 1, p) for p in self.partitions[-1:]
        )

    def work(self, attempt: Attempt) -> None:
        for _ in range(attempt.steps, BATCHES):
            message, update = self.next_push(attempt, 1)
            attempt.version = self.training.push(attempt.member, message, update).settings_version
            attempt.steps, attempt.sequence = attempt.steps + 1, attempt.sequence + 1
            self.pushes += 1
        done = finish(attempt.epoch, BATCHES, BATCHES)
        if self.training.finish(attempt.member, done).directive is not Directive.GO:
            self.attempts.remove(attempt)
        attempt.epoch, attempt.steps, attempt.sequence = attempt.epoch + 1, 0, 0


Cluster.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestOnce = Cluster.TestCase
