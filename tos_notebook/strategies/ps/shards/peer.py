"""A shard's side of one worker."""

from __future__ import annotations

from typing import cast, get_args

from ....codecs.pair import CodecPair, as_codecs
from ....combiners.base import Pushes
from ....common.arrays import Buffer
from ....errors import ConfigError, RemoteProtocolError, SessionClosed
from ....transport.base import BytesLike
from ....wire.messages import (
    Answer,
    Attach,
    Collect,
    Directive,
    Encoding,
    LeaveRows,
    Lookup,
    Proceed,
    Push,
    Request,
)
from .. import push as ps
from ..peer_replica import PeerReplica
from ..rows.peer_replica import RowPeerReplica
from ..served.peer import ServedPeer
from .staging import Reached, Staging

PUSHES = get_args(Pushes)

WAIT = 0.5
"""Seconds for which a worker's question is held that cannot be answered yet."""


class ShardHandler:
    """Takes a worker's updates, and sends it parameters; see `Handler`.

    Parameters
    ----------
    token : str
        Which workers must name; they have it from the driver.
    staging : Staging
    """

    def __init__(self, token: str, staging: Staging) -> None:
        self._token = token
        self._staging = staging
        self._rows = ServedPeer(staging.rows)
        self._replica: PeerReplica | RowPeerReplica | None = None
        # Whether it holds what this worker has left last, or what has become of it.
        self._holds = False
        self._pushes: Pushes = "delta"
        self._partition = self._task = -1
        # Whether its worker may have to wait for others, as far as is known.
        self._waits = True
        self._preview: Buffer | None = None

    @property
    def brief(self) -> bool:
        """See `Handler.brief`."""
        if self._waits or self._staging.rows.tables:
            return False
        return self._replica is not None and self._replica.brief

    @property
    def needed(self) -> bool:
        """See `Handler.needed`."""
        return self._task >= 0 and self._staging.owns(self._partition, self._task)

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """See `Handler.receive_into`."""
        if self._task < 0 and not isinstance(message, Attach):
            raise RemoteProtocolError(f"Expected Attach first, got {type(message).__name__}.")
        if isinstance(message, Push):
            self._staging.traffic.add(received=nbytes)
            return self._encoded().receive_into(nbytes)
        if isinstance(message, Lookup | LeaveRows):
            self._staging.traffic.add(received=nbytes)
            return self._rows.receive_into(message, nbytes)
        if nbytes:
            raise RemoteProtocolError(
                f"{type(message).__name__}: expected a payload of 0 bytes, got {nbytes}."
            )
        return None

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        """See `Handler.handle`."""
        match message:
            case Attach():
                return self._attach(message), None
            case Encoding():
                return self._encode(message), None
            case Push():
                answer, reply = self._stage(message)
                self._staging.traffic.add(sent=0 if reply is None else len(reply))
                return answer, reply
            case Lookup():
                found = self._rows.find(message)
                self._staging.traffic.add(sent=len(found))
                return _go(), found
            case LeaveRows():
                self._rows.leave(message)
                return _go(), None
            case Collect():
                answer, reply = self._collect(message)
                self._staging.traffic.add(sent=0 if reply is None else len(reply))
                return answer, reply
        raise RemoteProtocolError(f"A shard expects no {type(message).__name__}.")

    def _attach(self, message: Attach) -> Proceed:
        if message.generation != self._token:
            raise SessionClosed("The shard belongs to another run, or to an earlier attempt.")
        reached = Reached((message.epoch, message.sequence), message.workers)
        self._staging.attach(message.partition, message.task, reached)
        self._replica, self._holds = None, False
        self._partition, self._task = message.partition, message.task
        return _go()

    def _encode(self, message: Encoding) -> Proceed:
        if message.pushes not in PUSHES:
            raise RemoteProtocolError(
                f"Encoding.pushes: expected one of {', '.join(PUSHES)}, got {message.pushes!r}."
            )
        try:
            codecs = as_codecs(message.codec)
        except ConfigError as error:
            raise RemoteProtocolError(f"Encoding.codec: {error}") from error
        self._replica, self._holds = self._replica_for(message, codecs), False
        self._pushes = cast(Pushes, message.pushes)
        return _go()

    def _replica_for(self, message: Encoding, codecs: CodecPair) -> PeerReplica | RowPeerReplica:
        layout, earlier = self._staging.center.layout, self._replica
        if message.by_row:
            if not codecs.lossless:
                raise RemoteProtocolError(
                    f"Encoding.codec: expected 'fp32' where tables are exchanged by row, got "
                    f"{message.codec!r}."
                )
            return RowPeerReplica(layout, None)
        whole = earlier if isinstance(earlier, PeerReplica) else PeerReplica(layout, None)
        whole.use(codecs)
        return whole

    def _encoded(self) -> PeerReplica | RowPeerReplica:
        if self._replica is None:
            raise RemoteProtocolError("Expected Encoding before anything else of an update.")
        return self._replica

    def _stage(self, message: Push) -> tuple[Proceed, BytesLike | None]:
        if not 1 <= message.steps <= message.samples:
            raise RemoteProtocolError(
                f"Push.samples: expected at least {max(1, message.steps)}, got {message.samples}."
            )
        replica, self._holds = self._encoded(), False
        finite = replica.read(self._pushes) and message.finite
        push = ps.Push(
            self._partition,
            message.base_version,
            message.steps,
            message.samples,
            1,
            self._pushes,
            finite,
        )
        place = message.epoch, message.sequence
        owner, changes = (self._partition, self._task), self._rows.take(place)
        self._staging.stage(*owner, place, replica.buffer, push, changes)
        self._holds = True
        return self._answer_at_once(push)

    def _answer_at_once(self, push: ps.Push) -> tuple[Proceed, BytesLike | None]:
        """Return what the worker will adopt if its update counts, if that can be told already.

        So the worker receives from one shard while it sends to the next.
        """
        replica = self._replica
        if self._waits or not (push.finite and isinstance(replica, PeerReplica)):
            self._preview = None
            return _go(), None
        if self._preview is None:
            self._preview = self._staging.center.layout.allocate()
        version = self._staging.center.preview(replica.buffer, push, self._preview)
        if version is None:
            self._preview = None
            return _go(), None
        return _go(version), replica.reply(version, self._preview)

    def _collect(self, message: Collect) -> tuple[Proceed, BytesLike | None]:
        replica, center = self._encoded(), self._staging.center
        # The thread of all connections does not wait for one.
        patience, self._waits = 0.0 if self.brief else WAIT, message.version > 0
        merged = self._settle(message)
        if not self._holds:
            merged = None
        if merged is not None and center.combiner.keeps_own:
            return _go(merged), replica.reply(merged)
        if not self._staging.wait(message.version, patience):
            return Proceed(Directive.WAIT, 0, None), None
        if not message.give:
            return _go(), None
        if merged is None or merged < message.version:
            merged = center.read(replica.buffer)[1]
        return _go(merged), replica.reply(merged)

    def _settle(self, message: Collect) -> int | None:
        """Merge the update that waits, or forget it; return the version that it made."""
        if not message.merge:
            self._staging.withdraw(self._partition, self._task)
            return None
        place = message.epoch, message.sequence
        return self._staging.merge(self._partition, self._task, place, message.workers)

    def closed(self, error: Exception | None) -> None:
        """See `Handler.closed`: what waits is settled by others."""


def _go(version: int | None = None) -> Proceed:
    return Proceed(Directive.GO, 0, None, version)
