"""The worker's side of all-reduce among the workers.

They exchange several times in a milestone, which counts for all of them or for none. When one is
lost, all continue with what the driver holds a copy of: the state after the last milestone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ...archive.runner import Runner, Trained, Updater
from ...codecs.pair import PLAIN, as_codecs
from ...common.arrays import Array, Buffer, is_finite
from ...errors import ConnectionClosed, PeerLost
from ...layout import Layout
from ...reduction.digest import digest
from ...reduction.schedules import direct
from ...reduction.sharing import Within
from ...transport.base import Connection
from ...wire.messages import Directive, Formed, Join, Joined, Poll, Proceed, Push, Reply
from ...wire.settings import WorkerSettings
from ...worker.exchange import WorkerContext, ask, expect
from .averaging import NOTHING, Averager, signed
from .awaited import Awaited
from .coding import on_their_way, reducers_for
from .milestone import ALGORITHMS, MOST_LINKS, Milestone, join, split
from .pace import Pace
from .peers import Peers


class MeshExchange:
    """Parameters that workers train together; see `Exchange`.

    Parameters
    ----------
    connection : Connection
        To the server.
    layout : Layout
    context : WorkerContext
    of : {"gradients", "parameters"}
        What workers average.
    algorithm : str
        See `Peers`.
    """

    _averager: Averager
    _links: tuple[int, Within, float, float]

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        context: WorkerContext,
        of: str,
        algorithm: str,
    ) -> None:
        self._connection, self._layout = connection, layout
        self._awaited = Awaited(connection)
        self._peers = Peers(context, algorithm, layout.nbytes, self._awaited.check)
        self._of = of
        self._parameters, self._work = layout.allocate(), self._peers.memory.vectors
        self.vectors = layout.vectors(self._parameters)
        self._means = layout.vectors(self._work)
        self._into, self._held = (
            list(layout.tensors(buffer).values()) for buffer in (self._work, self._parameters)
        )
        self._updater: Updater | None = None
        self._outer: str | None = None
        self._aggregate: Callable[[Array], Array] | None = None
        self._codecs = PLAIN
        self._spoiled: Buffer | None = None
        # Whether the optimizer is to make its step by the means.
        self._owes_step = False
        self._rank, self._version, self._base = 0, 0, 0
        self._epoch, self._every = -1, 1
        self._pace = Pace()
        self.attends, self.again = True, False

    @property
    def rounds(self) -> int:
        """See `Exchange.rounds`."""
        return self._pace.rounds

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        return ask(self._connection, message, Joined)

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`."""
        self._every = settings.sync_interval
        self._outer = settings.strategy.get("outer")
        codecs = as_codecs(settings.strategy.get("codec", PLAIN))
        if codecs != self._codecs:
            # When all have connected again, all have these settings.
            self._codecs = codecs
            self._peers.cut()

    def prepare(self, runner: Runner, epoch: int) -> Proceed | None:
        """Connect to all other workers that an epoch needs, unless that is done."""
        if self.again or (epoch != self._epoch and not self._peers.whole):
            self._peers.cut()
        if epoch != self._epoch:
            self._epoch, self.attends = epoch, True
        if self._peers.formed:
            return None
        if self._of == "gradients":
            # It takes long at the first time, and no worker waits for it yet.
            self._updater = self._optimizer(runner)
        message = self._peers.ready(epoch)
        answer, payload = self._connection.request(message)
        if isinstance(answer, Proceed):
            return answer
        formed = expect(Formed, answer, message)
        if formed.settings is not None:
            self.use(formed.settings)
        self._updater = self._optimizer(runner)
        copy = np.frombuffer(payload or b"", np.uint8)
        self._adopt(copy)
        return self._connect(formed, copy.nbytes)

    def _adopt(self, copy: Buffer) -> None:
        """Begin with what all workers begin with."""
        like = [] if self._updater is None else self._updater.state()
        self._parameters[:], state = split(copy, self._layout, like)
        if self._updater is not None:
            self._updater.restore(state)

    def _optimizer(self, runner: Runner) -> Updater | None:
        """Return what makes a step by the means; None where they are the parameters."""
        if self._of == "gradients":
            return self._updater or runner.updater()
        if self._outer is None and self._codecs.lossless:
            return None
        from .outer import PLAIN_MEAN, OuterOptimizer, aggregate_of, from_text

        # Changes can be rounded, since they are small, and parameters cannot.
        rule = PLAIN_MEAN if self._outer is None else from_text(self._outer)
        self._aggregate = aggregate_of(rule)
        return OuterOptimizer(self._layout, rule)

    @property
    def _changes(self) -> bool:
        """Whether workers average by how much their parameters have changed."""
        return self._of == "parameters" and self._updater is not None

    def _connect(self, formed: Formed, copied: int) -> Proceed:
        proceed = Proceed(Directive.GO, formed.settings_version, formed.settings)
        self._awaited.generation = formed.generation
        try:
            mesh, schedule, speed = self._peers.form(formed, copied)
        except ConnectionClosed:
            return proceed
        except PeerLost as error:
            # Perhaps it was lost meanwhile, and Spark starts another one.
            said = self._awaited.blame(error)
            return said if said.directive is Directive.STOP else proceed
        # Where each rank sums all, its own numbers are not those that others have decoded.
        unlike = schedule.parts == 1 and schedule.name == "direct" and not self._codecs.lossless
        if self._aggregate is not None or not on_their_way(self._codecs) or unlike:
            schedule = direct(mesh.n)
        measured = (0.0, 0.0) if speed is None else (speed.latency, speed.bandwidth)
        self._links = ALGORITHMS.index(schedule.name), mesh.within, *measured
        means = signed(self._means) if self._changes else self._means
        reducers = reducers_for(self._layout, mesh, schedule, self._codecs, self._aggregate)
        self._averager = Averager(mesh, schedule, means, reducers)
        self._rank, self._version = formed.rank, formed.version
        self.again = False
        # A milestone that is trained again may need this one, though the lost one was the last.
        self.attends = True
        self._pace = Pace()
        return proceed

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained | None:
        """See `Exchange.train`."""
        self._averager.clear()
        self._spoiled = None
        try:
            return self._train(runner, columns, batch_size)
        except ConnectionClosed:
            self.again = True
        except PeerLost as error:
            self.again = True
            # Before this one is ready again, which would count as its own doing.
            self._awaited.blame(error)
        return None

    def _train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained | None:
        began, size = perf_counter(), self._every * batch_size
        sums, rows = dict.fromkeys(runner.spec.outputs, 0.0), 0
        self._made = self._left_out = 0
        self._owes_step = False
        for start in range(0, self.rounds * size, size):
            part = tuple(column[start : start + size] for column in columns)
            count, weight = len(part[0]) if part else 0, 0.0
            if count:
                values = self._compute(runner, part, batch_size)
                weight = self._weigh(count)
                # The loss of a round that is left out is not known.
                told = 0 if weight == NOTHING else count
                rows += told
                for name in sums if told else ():
                    sums[name] += values[name] * told
            else:
                self._step()
            if not self._make(weight):
                # No worker has rows left, and all learn it here.
                self.attends = False
                break
            self._made += 1
        self._step()
        if not self._made:
            return None
        nbytes = sum(column.nbytes for column in columns)
        self._pace.agree(self._made, perf_counter() - began, nbytes, self._averager)
        nothing = float("nan")
        return Trained([], {n: total / rows if rows else nothing for n, total in sums.items()})

    def _compute(
        self, runner: Runner, part: Sequence[Array], batch_size: int
    ) -> Mapping[str, float]:
        """Train, for what this worker adds to a round; return the outputs."""
        if self._owes_step:
            # One call of TensorFlow costs a small model as much as what it computes.
            both = runner.advance(self.vectors, self._means, part, batch_size)
            if both is not None:
                self._owes_step = False
                _copy(both.parameters, self.vectors)
                _copy(both.gradients, self._means)
                return both.values
            self._step()
        trained = runner.train(self.vectors, part, batch_size)
        if self._changes:
            with np.errstate(over="ignore"):
                changes = zip(self._into, trained.parameters, self._held, strict=True)
                for target, array, before in changes:
                    np.subtract(array, before, out=target)
        else:
            _copy(trained.parameters, self._into)
        return trained.values

    def _step(self) -> None:
        """Make the step that is owed."""
        if not self._owes_step:
            return
        assert self._updater is not None
        self._owes_step = False
        _copy(self._updater.update(self.vectors, self._means), self._held)
        if self._skips_steps:
            # What lies between tensors may be NaN, and must not spoil the next round.
            self._work[:] = 0

    def _weigh(self, rows: int) -> float:
        """Return the weight of what this worker adds to a round."""
        if self._skips_steps or all(map(is_finite, self._means)):
            return rows
        self._leave_out()
        self._work[:] = 0
        return NOTHING

    @property
    def _skips_steps(self) -> bool:
        """Whether the optimizer itself leaves out what is not finite."""
        return self._updater is not None and self._updater.scales_loss

    def _leave_out(self) -> None:
        """Note that what a round has is not finite."""
        if self._spoiled is None:
            self._spoiled = self._work.copy()
        self._left_out += 1

    def _make(self, weight: float) -> float:
        """Make a round together with the other workers; return what they all weigh."""
        total = self._averager.average(weight)
        if total == math.inf and not self._skips_steps:
            # One worker has what is too large for the codec, and all learn it.
            if weight >= 1:
                self._leave_out()
            self._work[:] = 0
            return total
        if total < 1:
            # There is nothing to add, as if the rows of this round were not there.
            return total
        if self._updater is None:
            self._parameters[:] = self._work
        elif self._of == "gradients":
            # With the next batch, if there is one.
            self._owes_step = True
        else:
            _copy(self._updater.update(self.vectors, self._means), self._held)
        return total

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`: what was trained is there."""
        return self._spoiled is None

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Report what all workers have made; the first one sends a copy of it."""
        averager, began = self._averager, perf_counter()
        copy = None
        if self._rank == 0:
            state = [] if self._updater is None else self._updater.state()
            copy = join(self._parameters, state)
        milestone = Milestone(
            digest(self._parameters),
            self._made,
            self._left_out,
            averager.to.total(),
            averager.received,
            *self._links,
            copy,
            self._spoiled,
            sum(nbytes > 0 for nbytes in averager.to.values()),
            tuple((+averager.to).most_common(MOST_LINKS)),
        )
        self._base = self._version
        message = message._replace(
            base_version=self._base,
            compute=max(0.0, message.compute - averager.seconds),
            wait=message.wait + averager.waited,
            exchange=message.exchange + max(0.0, averager.seconds - averager.waited),
        )
        answer, _ = self._connection.request(message, milestone.pack(), None, meanwhile)
        reply = expect(Reply, answer, message)
        self._note(reply.version)
        self._pace.reported(perf_counter() - began)
        return reply

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`."""
        proceed = ask(self._connection, message, Proceed)
        if proceed.version is not None:
            self._note(proceed.version)
        return proceed

    def _note(self, version: int) -> None:
        """Take note of the driver's version: each milestone that counts makes a new one."""
        self._version = version
        self.again = version == self._base

    def close(self) -> None:
        """End the links to other workers."""
        self._peers.close()


def _copy(arrays: Iterable[Array], targets: Iterable[Array]) -> None:
    for target, array in zip(targets, arrays, strict=True):
        np.copyto(target, array)


@dataclass(frozen=True, slots=True)
class MeshExchangeMaker:
    """Makes the worker's side of a run; see `worker.exchange.ExchangeMaker`.

    Parameters
    ----------
    of, algorithm : str
        See `MeshExchange`.
    """

    of: str
    algorithm: str

    def __call__(
        self, connection: Connection, layout: Layout, context: WorkerContext
    ) -> MeshExchange:
        """Return it."""
        return MeshExchange(connection, layout, context, self.of, self.algorithm)
