"""A worker's exchange with shards of the parameters, and with the driver, which counts.

The worker leaves its update at all shards, each a part. Then it tells the driver, without
parameters. When the driver has counted it, the shards merge it. They send what comes of it then, or
have done so before, where no worker waits for others.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any, NamedTuple, TypeVar, cast

from ....archive.runner import Runner, ServedRunner, Trained
from ....common.arrays import Array
from ....errors import ClusterUnreachable, RemoteProtocolError
from ....layout import Layout
from ....transport.base import Connection
from ....wire.messages import (
    Attach,
    Collect,
    Directive,
    Encoding,
    Join,
    Joined,
    Poll,
    Proceed,
    Push,
    Reply,
)
from ....wire.settings import WorkerSettings
from ....worker.exchange import WorkerContext, ask, expect
from ..exchange import encoding_in
from ..replica import Replica
from ..residual import ResidualStore
from ..served.client import ServedRowsOfWorker
from ..updates import Updates
from .link import Place, ShardLink
from .slices import Slice

Result = TypeVar("Result")

TRAFFIC = struct.Struct(">QQ")
"""Bytes of parameters that a worker has sent to shards, and got from them, since its last push."""


class ShardedExchange:
    """Exchanges with shards and the driver; see `Exchange`.

    Parameters
    ----------
    connection : Connection
        To the driver.
    layout : Layout
    parts : sequence of Slice
        Of the shards.
    context : WorkerContext
    """

    rounds = 1
    attends = again = False

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        parts: Sequence[Slice],
        context: WorkerContext,
    ) -> None:
        self._connection = connection
        self._context = context
        join, self._join = context.join, context.join
        adopted = layout.allocate()
        self._updates = Updates(layout, adopted)
        self.vectors: list[Array] = self._updates.vectors
        name = context.leg or join.run
        self._stores = [
            ResidualStore(
                part.layout.nbytes, context.folder, f"{name}.{n}", join.partition, join.task
            )
            for n, part in enumerate(parts)
        ]
        self._links: Sequence[ShardLink] = [
            ShardLink(
                Replica(part.layout, adopted[part.start : part.stop], store, join.partition), part
            )
            for part, store in zip(parts, self._stores, strict=True)
        ]
        self._served = ServedRowsOfWorker(layout.served, len(parts)) if layout.served else None
        self._threads = ThreadPoolExecutor(len(parts), "tos-shard")
        first = join.partition % len(parts)
        self._order = [*range(first, len(parts)), *range(first)]
        self._begun = (0, 0)
        self._generation = ""
        self._owing = True
        self._encoding = Encoding("delta", "fp32", by_row=False)

    @property
    def by_row(self) -> bool:
        """Whether tables are exchanged by row."""
        return False

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        joined = ask(self._connection, message, Joined)
        self._begun = joined.epoch, joined.sequence
        for store in self._stores:
            store.begin(self._begun, joined.before)
        return joined

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`."""
        pushes, codecs = encoding_in(settings)
        for link in self._links:
            link.replica.use(codecs)
        self._updates.use(pushes, apart=not codecs.lossless)
        encoding = Encoding(pushes, settings.strategy["codec"], self.by_row)
        if encoding != self._encoding:
            self._encoding = encoding
            self._say_encoding()

    def _say_encoding(self) -> None:
        """Tell shards how updates are sent, if they are known yet."""
        if self._generation:
            self._each(lambda link: link.ask(self._encoding))

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Exchange.train`."""
        if self._served is None:
            return self._train(runner, columns, batch_size)
        self._served.fetch(cast(ServedRunner, runner), columns, self._of_each)
        trained = self._train(runner, columns, batch_size)
        self._served.take(cast(ServedRunner, runner))
        return trained

    def _train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        return runner.train(self.vectors, columns, batch_size)

    def _of_each(self, call: Callable[[int, ShardLink], None]) -> None:
        """Call something with the number and the link of each shard, of all at once."""
        calls = [self._threads.submit(call, n, link) for n, link in enumerate(self._links)]
        for each in calls:
            each.result()

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`."""
        finite = self._updates.write(trained, all(link.replica.encodes for link in self._links))
        return finite and (self._served is None or self._served.finite)

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """See `Exchange.push`."""
        for link in self._links:
            link.answered = False
        if message.finite:
            staging = self._stage_all(message)
            meanwhile()
            sent = [each.result() for each in staging]
            if not all(each.finite for each in sent):
                # What was left at others must be gone before the driver leaves it out.
                self._collect(Collect(message.epoch, message.sequence, False, False, 0, 0))
                message = message._replace(finite=False)
        else:
            meanwhile()
        if not message.finite:
            self._spoiled()
        answer, told = self._connection.request(message, self._traffic())
        reply = expect(Reply, answer, message)
        if reply.status == "superseded":
            return reply
        workers, least = _numbers(told)
        counted = reply.status in ("committed", "duplicate")
        if counted:
            for link in self._links:
                link.replica.settle()
        go = reply.directive is Directive.GO
        there = go and counted and self._has(least)
        give = go and not there
        place = message.epoch, message.sequence
        came = self._collect(Collect(*place, counted, give, least if give else 0, workers), there)
        if not (go and came):
            return reply._replace(directive=Directive.WAIT) if go else reply
        # Others may have been counted since the shards answered.
        return reply._replace(version=min(k.version for k in self._links)) if there else reply

    def _has(self, version: int) -> bool:
        """Return whether all shards have answered the last update, with that version or later."""
        return all(link.answered and link.version >= version for link in self._links)

    def _spoiled(self) -> None:
        """Take note that an update was made where parameters were adopted, and is not sent."""

    def _stage_all(self, message: Push) -> list[Future[Push]]:
        """Begin to leave the update at all shards, at one after the other.

        So what one shard answers comes while the next part is sent. Each worker begins with
        another shard.
        """
        staging, free = [], Event()
        free.set()
        for n in self._order:
            sent = Event()
            staging.append(self._threads.submit(self._stage, n, message, free, sent))
            free = sent
        return staging

    def _stage(self, number: int, message: Push, free: Event, sent: Event) -> Push:
        link = self._links[number]
        try:
            if self._served is not None:
                self._served.leave(number, link, message)
            return link.stage(message, self._updates, _between(free, sent))
        finally:
            sent.set()

    def _traffic(self) -> bytes:
        up, down = (sum(link.moved[way] for link in self._links) for way in (0, 1))
        for link in self._links:
            link.moved = [0, 0]
        return TRAFFIC.pack(up, down)

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`; an answer names the shards."""
        answer, received = self._connection.request(message)
        proceed = expect(Proceed, answer, message)
        if proceed.version is None:
            return proceed
        named = shards_in(received)
        self._attach(named)
        if self._owing and not self._collect(Collect(0, 0, False, True, named.least, 0)):
            return Proceed(Directive.WAIT, proceed.settings_version, proceed.settings)
        return proceed

    def _attach(self, named: Shards) -> None:
        if named.generation == self._generation:
            return
        if self._generation or len(named.places) != len(self._links):
            raise ClusterUnreachable(
                f"Expected {len(self._links)} shards of one generation, got others: they were "
                "lost, and the worker starts again."
            )
        join, secret = self._join, self._context.secret
        whose = join.partition, join.task
        attach = Attach(named.generation, *whose, *self._begun, named.workers)
        both = zip(self._links, named.places, strict=True)
        opening = [
            self._threads.submit(link.attach, place, secret, attach, self._encoding)
            for link, place in both
        ]
        for each in opening:
            each.result()
        self._generation = named.generation

    def _collect(self, message: Collect, there: bool = False) -> bool:
        """Collect from all shards; return whether all parameters have come, or were there."""
        answers = self._each(partial(_collect, message))
        came = there or all(answer.version is not None for answer in answers)
        self._owing = not came
        return came

    def _each(self, call: Callable[[ShardLink], Result]) -> list[Result]:
        if len(self._links) == 1:
            return [call(self._links[0])]
        return [each.result() for each in [self._threads.submit(call, k) for k in self._links]]

    def close(self) -> None:
        """See `Exchange.close`."""
        for link in self._links:
            link.close()
        self._threads.shutdown(wait=False)


@contextmanager
def _between(before: Event, after: Event) -> Iterator[None]:
    before.wait()
    yield
    after.set()


def _collect(message: Collect, link: ShardLink) -> Proceed:
    return link.collect(message)


def _numbers(received: memoryview | None) -> tuple[int, int]:
    """Return how many workers there are, and the version that parameters must have."""
    found = _list(received)
    if len(found) != 2 or not all(type(n) is int and n >= 0 for n in found):
        raise RemoteProtocolError(f"Expected two numbers with Reply, got {found!r:.80}.")
    return found[0], found[1]


class Shards(NamedTuple):
    """What the driver says of the shards."""

    generation: str
    least: int
    """The version that parameters must have."""
    places: list[Place]
    workers: int
    """Active ones when the last push of the worker's partition was counted."""


def shards_in(received: memoryview | None) -> Shards:
    """Return what the driver says of the shards.

    Raises
    ------
    RemoteProtocolError
        The driver has sent something else.
    """
    try:
        generation, least, places, workers = _list(received)
        found = [Place(str(h), int(p), bytes.fromhex(f) or None) for h, p, f in places]
        return Shards(str(generation), int(least), found, int(workers))
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"Expected the addresses of shards: {error}.") from error


def _list(received: memoryview | None) -> list[Any]:
    try:
        found = json.loads(b"" if received is None else bytes(received))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"Expected JSON, got something else: {error}.") from error
    if not isinstance(found, list):
        raise RemoteProtocolError(f"Expected a list, got {found!r:.80}.")
    return found
