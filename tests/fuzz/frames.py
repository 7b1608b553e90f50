"""Mutated frames, fed to what reads frames: server, client and both sides of the handshake.

    python -m tests.fuzz.frames [--count N] [--seed S] [--start N]

The frames are those of a real worker's conversation with a real server, each kind of message
among them. A run is a function of seed, start and count.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np

from tests.fuzz.channels import Forgery, Memo, Tap, message_of, payload_at, whole_pushes
from tests.fuzz.mutate import mutate
from tests.fuzz.shards import ShardWorld
from tests.support.numpy_program import NumpyProgram, SoftmaxRegression
from tests.unit.worker.support import join, push
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import Downpour
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import TosError
from tos_notebook.layout import Layout
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.exchange import ParameterExchange
from tos_notebook.strategies.ps.residual import ResidualStore
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.transport import shared
from tos_notebook.transport.auth import client_handshake, new_secret, server_handshake
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.inproc import InprocListener
from tos_notebook.transport.reactor import Reactor
from tos_notebook.transport.server import serve
from tos_notebook.transport.turn import Turn
from tos_notebook.wire.frames import decode_header
from tos_notebook.wire.messages import (
    KINDS,
    Attach,
    Awaiting,
    Collect,
    Done,
    Encoding,
    Failed,
    Fetch,
    Finish,
    Formed,
    Join,
    Joined,
    Labelled,
    LeaveRows,
    Loaded,
    Lookup,
    Message,
    Order,
    Poll,
    Proceed,
    Ready,
    Refused,
    Reply,
    Rows,
    Serving,
    Suspect,
)
from tos_notebook.worker.loading import fetch

PATIENCE = 60.0
"""Seconds for a thousand cases, after which something hangs."""
ROUND = 1000
SECRET = new_secret()
FINGERPRINT = bytes(range(32))


def filled(layout: Layout, value: float) -> list[Array]:
    """Return what a worker has trained: parameters that are all the same."""
    return [np.full_like(t, value) for t in layout.tensors(layout.allocate()).values()]


class Steady(WorkerHandler):
    """A worker's handler that stays as it is when a connection ends."""

    def closed(self, error: Exception | None) -> None:
        pass


class World:
    """A run with one codec: both its ends as new, and the frames of a conversation."""

    def __init__(self, program: NumpyProgram, codec: str) -> None:
        self.codec = as_codecs(codec)
        self.layout = program.spec.layout
        self.requests: list[bytes] = []
        self.answers: list[bytes] = []
        self._initial = self.layout.allocate()
        self._settings = Settings(ServerSettings(Downpour(), self.codec), 1)
        self._source = ArraySource((np.ones((8, 4), np.float32), np.zeros(8, np.int64)), 1)
        self._memo = Memo()
        self._handler: Steady | None = None
        self._replica: ParameterExchange | None = None
        self._training = self._new()
        self._record()
        self.kinds = {frame: KINDS[frame[5]] for frame in self.requests + self.answers}

    def _new(self) -> Coordinator:
        training = Coordinator(
            "run",
            ParameterServer().trainer(TrainerSetup(self.layout, self._initial, self._settings)),
            self._settings,
            publish=lambda event: None,
            locate=lambda task: ("executor", "?"),
            on_failure=lambda: None,
        )
        training.begin_span(self._source, 0, 0)
        return training

    def training(self) -> Coordinator:
        """See `ParameterServer.training`."""
        return self._training

    def handler(self) -> WorkerHandler:
        """Return the handler of a worker that has joined a run, and changed nothing yet."""
        if self._handler is None:
            self._training, self._handler = self._new(), Steady(self.training)
            self._memo.begin(self.requests[0])
            serve(self._memo, self._handler, Reactor(), Turn())
            assert len(self._memo.heads) == 1
        return self._handler

    def replica(self, connection: ChannelConnection) -> ParameterExchange:
        """Return the replica of a worker that has joined."""
        if self._replica is None:
            self._memo.begin(self.answers[0])
            self._replica = self.joined(ChannelConnection(self._memo))
            self._memo.begin(self.answers[1])
            self._replica.poll(Poll(0))
        self._replica._connection = connection
        return self._replica

    def joined(self, connection: ChannelConnection) -> ParameterExchange:
        """Return a replica that has joined over a connection."""
        replica = ParameterExchange(connection, self.layout, ResidualStore(self.layout.nbytes))
        replica.join(join())
        replica.use(self._settings.for_worker())
        return replica

    def spoil(self, replica: bool = False) -> None:
        """Take note that the run, or the replica, has changed."""
        if replica:
            self._replica = None
        else:
            self._handler = None

    def _record(self) -> None:
        listener = InprocListener(lambda peer: WorkerHandler(self.training))
        listener.start()
        connection = ChannelConnection(Tap(listener.accept(10.0), self.requests, self.answers))
        replica = self.joined(connection)
        replica.poll(Poll(0))
        connection.request(Fetch(0))
        connection.request(Fetch(1))
        connection.request(Loaded(8, "0" * 32, streamed=False))
        for number in range(3):
            replica.write(filled(self.layout, 1 + number))
            replica.push(push(number), lambda: None)
            replica.poll(Poll(0))
        connection.request(Finish(0, 8, 3))
        connection.request(Failed("ValueError: spoiled", ["line 1"], True, 0, [0, 1]))
        connection.request(Labelled([0, 1], [5, 3]))
        connection.request(Suspect("row", 3, "nan", 1))
        among = Ready(0, "127.0.0.1", 4000, ""), Awaiting(1, 0, "It refuses.")
        shards = (
            Serving("token", 0, "127.0.0.1", 4000, "", 1),
            Done(0, 0, "", "", 500, 2048, 8, 8),
            Attach("generation", 0, 0, 0, 0, 1),
            Encoding("delta", "fp32", by_row=False),
            Collect(0, 0, merge=True, give=True, version=0, workers=1),
            Lookup(0),
            LeaveRows(0, 0, 0),
        )
        for wrong in (*among, *shards, Finish(0, 0, 99), push(9, base_version=9)):
            with suppress(TosError):
                connection.request(wrong)
        connection.close()
        listener.close()


def worlds() -> list[World]:
    """Return runs whose conversations have every kind of message in them."""
    found = [World(SoftmaxRegression(dtype="float32"), codec) for codec in CODECS]
    # Most runs have no codec.
    found += [found[0]] * 3
    frames = [frame for world in found for frame in world.requests + world.answers]
    # Only workers that connect to each other, and shards, are answered with these.
    expected = {kind for kind, message in KINDS.items() if message not in (Formed, Order)}
    missing = expected - {decode_header(frame).kind for frame in frames}
    assert not missing, f"no frame of {[KINDS[kind].__name__ for kind in missing]}"
    return found


CODECS = ("fp32", "fp16", "int8", "topk:0.3+ef/int8", "sign+ef", "int4/bf16")


class Errors(logging.Handler):
    """Collects what the server takes for a defect of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


class Fuzz:
    """Runs cases, and counts what becomes of them.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._worlds = worlds()
        self._shards = [ShardWorld(number) for number in range(2)]
        self._memo = Memo()
        self.counts: Counter[str] = Counter()

    def run(self, start: int, count: int) -> None:
        """Run the cases `start` to `start + count`, both of them multiples of `ROUND`.

        Raises
        ------
        Forgery
            A frame was accepted that must not be, or changed what it may not.
        AssertionError
            An error that is none of ours.
        """
        errors = Errors()
        log = logging.getLogger("tos_notebook")
        log.addHandler(errors)
        log.propagate = False
        try:
            for first in range(start, start + count, ROUND):
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                self._round(Random(self._seed << 40 | first), first, errors)
        finally:
            faulthandler.cancel_dump_traceback_later()
            log.removeHandler(errors)
            log.propagate = True

    def _round(self, random: Random, first: int, errors: Errors) -> None:
        for number in range(first, first + ROUND):
            side = random.random()
            try:
                if side < 0.5:
                    self._serve(random, random.choice(self._worlds))
                elif side < 0.65:
                    self.counts[random.choice(self._shards).serve(random)] += 1
                elif side < 0.88:
                    self._ask(random, random.choice(self._worlds))
                else:
                    self._shake(random)
                if errors.found:
                    raise Forgery(errors.found[0])
            except Exception as error:
                text = f"case {number} of seed {self._seed}: {type(error).__name__}: {error}"
                raise AssertionError(text) from error

    # -- the server -------------------------------------------------------------------

    def _serve(self, random: Random, world: World) -> None:
        frame = random.choice(world.requests)
        mutated = mutate(random, frame, world.requests)
        handler = world.handler()
        if world.kinds[frame] is Join:
            handler = WorkerHandler(world.training)
        training = world.training()
        before = training.trainer.parameters.center.tobytes()
        self._memo.begin(mutated)
        serve(self._memo, handler, Reactor(), Turn())
        heads = self._memo.heads
        for answer in map(message_of, heads):
            refused = isinstance(answer, Refused)
            self.counts[f"server: {answer.error if refused else type(answer).__name__}"] += 1
            if refused and answer.text.startswith("server error"):
                raise Forgery(answer.text)
            if not refused and not isinstance(answer, Rows):
                world.spoil()
        if not heads:
            self.counts["server: closed"] += 1
        if training.parameters.version or training.trainer.parameters.center.tobytes() != before:
            world.spoil()
            self._check_push(world, training, mutated, before, heads)

    def _check_push(
        self,
        world: World,
        training: Coordinator,
        sent: bytes,
        before: bytes,
        heads: Sequence[bytes],
    ) -> None:
        """Let the center change only by pushes that are whole, by an account of their own."""
        answers = [message_of(head) for head in heads]
        committed = sum(isinstance(a, Reply) and a.status == "committed" for a in answers)
        # Merged, but the parameters have become too large for the codec of the reply.
        diverged = sum(isinstance(a, Refused) and a.error == "NonFiniteUpdate" for a in answers)
        version = training.parameters.version
        if not committed <= version <= min(committed + diverged, whole_pushes(sent)):
            raise Forgery(f"{version} pushes merged, answered {answers}: {sent!r}")
        if not version:
            raise Forgery("the center changed without a push")
        if world.codec.lossless and version == 1:
            update = np.frombuffer(sent[payload_at(sent) :][: len(before)], np.uint8)
            _expect_sum(world, before, update, training)

    # -- the client -------------------------------------------------------------------

    def _ask(self, random: Random, world: World) -> None:
        frame = random.choice(world.answers)
        self._memo.begin(mutate(random, frame, world.answers))
        connection = ChannelConnection(self._memo, max_payload=1 << 20)
        # The answer is to a request of its number.
        connection._sequence = decode_header(frame).sequence - 1
        try:
            kind = world.kinds[frame]
            self._follow(kind, world, connection)
            if kind in (Reply, Proceed):
                world.spoil(replica=True)
            outcome = "accepted"
        except TosError as error:
            outcome = type(error).__name__
        self.counts[f"client: {outcome}"] += 1

    def _follow(self, kind: type[Message], world: World, connection: ChannelConnection) -> None:
        if kind is Joined:
            ParameterExchange(connection, world.layout, ResidualStore(world.layout.nbytes)).join(
                join()
            )
        elif kind is Reply:
            replica = world.replica(connection)
            replica.write(filled(world.layout, 1))
            replica.push(push(), lambda: None)
        elif kind is Proceed:
            world.replica(connection).poll(Poll(0))
        elif kind is Rows:
            fetch(connection, 0)
        else:
            connection.request(Finish(0, 0, 0))

    # -- the handshake ----------------------------------------------------------------

    def _shake(self, random: Random) -> None:
        """Change one message of a handshake on its way; the last is the server's verdict."""
        spoiled = random.randrange(4)
        fingerprint = random.choice((b"", FINGERPRINT))
        client = client_handshake(SECRET, fingerprint)
        server = server_handshake(SECRET, fingerprint)
        hello, _ = next(client)
        next(server)
        let_in = [False, False]
        try:
            challenge, _ = server.send(_spoil(random, hello, spoiled == 0))
            proof, _ = client.send(_spoil(random, challenge, spoiled == 1))
            verdict, _ = server.send(_spoil(random, proof, spoiled == 2))
            let_in[0] = verdict == b"\x01"
            client.send(_spoil(random, verdict, spoiled == 3))
        except StopIteration:
            let_in[1] = True
        except TosError as error:
            self.counts[f"handshake: {type(error).__name__}"] += 1
        if (let_in[0] and spoiled < 3) or let_in[1]:
            raise Forgery(f"let in although message {spoiled} of the handshake was changed")


def _spoil(random: Random, message: bytes, spoiled: bool) -> bytes:
    """Return a message as long as it was: both sides read as much as they expect."""
    if not spoiled:
        return message
    changed = bytearray(message)
    if random.random() < 0.5:
        position = random.randrange(len(changed) * 8)
        changed[position // 8] ^= 1 << position % 8
        return bytes(changed)
    start = random.randrange(len(changed))
    changed[start:] = random.randbytes(len(changed) - start)
    return bytes(changed) if changed != message else bytes(b ^ 255 for b in message)


def _expect_sum(world: World, before: bytes, update: Any, training: Coordinator) -> None:
    center = np.frombuffer(before, np.uint8).copy()
    pairs = zip(
        world.layout.vectors(center),
        world.layout.vectors(update.copy()),
        world.layout.vectors(training.trainer.parameters.center),
        strict=True,
    )
    with np.errstate(all="ignore"):
        if not all(np.array_equal(c + u, now, equal_nan=True) for c, u, now in pairs):
            raise Forgery("the center is not what it was and what was pushed")


def resident() -> int:
    """Return this process's resident memory in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Run as the options say; return 1 if memory has grown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first case; to go on with a run")
    options = parser.parse_args()
    shared.PROCESSES = "/nowhere"
    np.seterr(all="ignore")
    fuzz = Fuzz(options.seed)
    warm = min(20_000, options.count)
    fuzz.run(options.start, warm)
    before, began = resident(), perf_counter()
    fuzz.run(options.start + warm, options.count - warm)
    seconds, after = perf_counter() - began, resident()
    lines = [
        f"cases {options.start:,} to {options.start + options.count:,} of seed {options.seed}",
        *(f"  {what:<40} {count:>10,}" for what, count in sorted(fuzz.counts.items())),
        f"{(options.count - warm) / max(seconds, 1e-9):,.0f} cases/s",
        f"memory: {before / 1e6:.1f} MB after {warm:,}, {after / 1e6:.1f} MB at the end",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(after - before > 20_000_000)


if __name__ == "__main__":
    sys.exit(main())
