"""The weighted mean of a vector whose parts travel encoded.

A partial mean travels, and no partial sum: its values stay in the range of what is averaged,
whatever the weights are. The rank that completes a part encodes the mean once. All ranks decode the
same bytes, that rank, too: so all of them end with the same bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple
from zlib import crc32

import numpy as np

from ..codecs.base import Codec
from ..codecs.pair import CodecPair
from ..codecs.parts import Part, Range
from ..common.arrays import Array, Buffer, aligned_empty, is_finite
from ..common.hashing import mix_key
from ..errors import LocalProtocolError, NonFiniteUpdate, PeerLost, RemoteProtocolError
from ..transport.base import byte_view
from .links import Link
from .mesh import Mesh
from .reducer import Reducer
from .schedules import Message, Round, Schedule
from .weighing import LEAST, Held

BLOCK = 1 << 16
"""Elements that are encoded or decoded at once; what comes next arrives meanwhile."""

_HEAD = struct.Struct("<QQd")
"""Which reduction of the mesh it is, bytes that follow, and the weight of the mean."""


class Block(NamedTuple):
    """Some elements of a vector, and their bytes on the way."""

    values: Array
    sent: memoryview
    """The bytes, and some behind them so that the next ones are aligned."""
    payload: Buffer
    part: Part
    rest: Array | None
    """What earlier payloads have missed, to be added to the next one; None if that is lost."""

    def encode(self, salt: int | None) -> None:
        """Encode the values, and keep what the payload misses.

        Raises
        ------
        NonFiniteUpdate
            One is NaN or infinite, or too large for the codec.
        """
        if self.rest is not None:
            with np.errstate(over="ignore"):
                np.add(self.values, self.rest, out=self.values)
        try:
            # Halves make infinity their largest number.
            if not is_finite(self.values):
                raise NonFiniteUpdate("Expected a vector of finite values, got NaN or infinity.")
            # By the values themselves: a milestone that is trained again gives the same bytes.
            key = 0 if salt is None else mix_key(salt, crc32(self.values.view(np.uint8).data))
            self.part.encode(self.values, self.payload, key, self.rest)
        except NonFiniteUpdate:
            if self.rest is not None:
                self.rest[:] = 0
            raise

    def decode(self, out: Array, sender: int) -> None:
        """Write the values that a rank has sent into others."""
        try:
            self.part.decode(self.payload, out)
        except RemoteProtocolError as error:
            raise PeerLost(sender, f"sends what no codec has encoded. {error}") from error


class Way:
    """How the parts of a vector travel in one direction.

    Parameters
    ----------
    codec : Codec
    vector : ndarray, shape (size,)
    bounds : sequence of int
        Where each part begins, and where the last one ends.
    rest : ndarray, shape (size,)
        Where to keep what payloads miss, if the codec has error feedback.
    """

    def __init__(self, codec: Codec, vector: Array, bounds: Sequence[int], rest: Array) -> None:
        self._made: dict[int, Part] = {}
        cuts = [
            [slice(low, min(low + BLOCK, stop)) for low in range(start, stop, BLOCK)]
            for start, stop in pairwise(bounds)
        ]
        lengths = [
            [-(-self._part(codec, vector, cut).nbytes // 8) * 8 for cut in part] for part in cuts
        ]
        self._starts = np.cumsum([0, *map(sum, lengths)]).tolist()
        memory = aligned_empty(self._starts[-1])
        memory[:] = 0
        self._data = memory.data
        self.blocks: list[list[Block]] = []
        end = 0
        for part, sizes in zip(cuts, lengths, strict=True):
            self.blocks.append([])
            for cut, nbytes in zip(part, sizes, strict=True):
                coder, start, end = self._part(codec, vector, cut), end, end + nbytes
                self.blocks[-1].append(
                    Block(
                        vector[cut],
                        self._data[start:end],
                        memory[start : start + coder.nbytes],
                        coder,
                        rest[cut] if codec.feedback else None,
                    )
                )

    def _part(self, codec: Codec, vector: Array, cut: slice) -> Part:
        """Return what codes a slice; slices of one size share it."""
        size = cut.stop - cut.start
        if size not in self._made:
            (self._made[size],) = codec.parts(vector.dtype, [Range(0, (size,))])
        return self._made[size]

    def sent(self, message: Message) -> memoryview:
        """Return the bytes of a message."""
        return self._data[self._starts[message.start] : self._starts[message.stop]]


class CodedReducer(Reducer):
    """Reduces vectors as `Reducer` does, but what travels is encoded.

    With error feedback, what a payload misses is kept for the next reduction, by the rank that has
    encoded it: of parts that it sends to be added, and of the mean of its own part. The schedule
    must be `direct` then, where each part is encoded once in each direction.

    Where a rank has values that are not finite, or too large for the codec, the mean is NaN on all
    ranks, and its weight infinity.

    Parameters
    ----------
    mesh, schedule
        See `Reducer`.
    codecs : CodecPair
        Its `up` is for what is still to be added to, its `down` for means.
    """

    sums = False

    def __init__(self, mesh: Mesh, schedule: Schedule, codecs: CodecPair) -> None:
        super().__init__(mesh, schedule)
        self._codecs = codecs
        self._vector: Array | None = None
        self._weights: list[float] = []
        self._done: list[bool] = []
        codings = codecs.up, codecs.down
        self._salts = [
            mesh.rank if codec.by_chance and not codec.feedback else None for codec in codings
        ]

    def _prepare(self, vector: Array) -> None:
        if self._vector is vector:
            return
        byte_view(vector, writable=True)
        if vector.ndim != 1 or vector.dtype.kind != "f":
            raise LocalProtocolError(
                f"Expected a vector of floating numbers, got {vector.dtype} of shape "
                f"{vector.shape}."
            )
        bounds, rest = self.schedule.bounds(vector.size), np.zeros_like(vector)
        self._up = Way(self._codecs.up, vector, bounds, rest)
        self._down = Way(self._codecs.down, vector, bounds, rest)
        self._bounds, self._vector = bounds, vector
        self._scratch = np.empty(min(BLOCK, vector.size), vector.dtype)

    def _reduce(self, weight: float) -> None:
        assert self._vector is not None
        self._mesh.reductions += 1
        self._weights = [weight] * self.schedule.parts
        self._done = [False] * self.schedule.parts
        for step in self.schedule.ranks[self._mesh.rank]:
            self._make(step)
        if math.inf in self._weights:
            self._vector.fill(np.nan)
        self._held = [Held(each, each) for each in self._weights]

    def _make(self, step: Round) -> None:
        """Make a round; parts without elements are not sent."""
        for message in filter(self._parts, step.sends):
            self._send(message)
        receives = [*filter(self._parts, step.receives)]
        for number, message in enumerate(receives, 1):
            if step.adds:
                self._add_to(message, step.final and number == len(receives))
            else:
                self._adopt(message)
        if self._flow.sending:
            self._flow.finish()

    def _parts(self, message: Message) -> list[int]:
        """Return the parts of a message that have elements."""
        parts = range(message.start, message.stop)
        return [part for part in parts if self._bounds[part] < self._bounds[part + 1]]

    def _send(self, message: Message) -> None:
        parts = self._parts(message)
        way = self._down if self._done[parts[0]] else self._up
        if way is self._up:
            began = perf_counter()
            for part in parts:
                self._encode(part)
            self._reducing += perf_counter() - began
        weight = max(self._weights[part] for part in parts)
        data = way.sent(message)[: None if _travels(weight) else 0]
        head = _HEAD.pack(self._mesh.reductions, len(data), weight)
        self._flow.send(self._link(message), head, data)

    def _encode(self, part: int) -> None:
        """Encode a part that is still to be added to."""
        if not _travels(self._weights[part]):
            return
        try:
            for block in self._up.blocks[part]:
                block.encode(self._salts[0])
        except NonFiniteUpdate:
            self._weights[part] = math.inf

    def _add_to(self, message: Message, completes: bool) -> None:
        """Make a mean of what comes and what is there, and encode it once it is complete."""
        came = self._begin_message(message, self._up)
        for part in self._parts(message):
            mine = self._weights[part]
            self._weights[part] = mine + came
            for up, down in zip(self._up.blocks[part], self._down.blocks[part], strict=True):
                if _travels(came):
                    self._flow.fill(self._link(message), up.sent)
                began = perf_counter()
                if _travels(came) and mine < math.inf:
                    self._blend(up, mine, came, message.peer)
                if completes:
                    self._complete(part, down)
                self._reducing += perf_counter() - began
            self._done[part] = completes

    def _blend(self, block: Block, mine: float, came: float, sender: int) -> None:
        if mine < LEAST:
            block.decode(block.values, sender)
            return
        decoded = self._scratch[: block.values.size]
        block.decode(decoded, sender)
        np.multiply(decoded, came / (mine + came), out=decoded)
        np.multiply(block.values, mine / (mine + came), out=block.values)
        np.add(block.values, decoded, out=block.values)

    def _complete(self, part: int, block: Block) -> None:
        """Replace a mean by what all others will decode."""
        if not _travels(self._weights[part]):
            return
        try:
            block.encode(self._salts[1])
            block.decode(block.values, self._mesh.rank)
        except NonFiniteUpdate:
            self._weights[part] = math.inf

    def _adopt(self, message: Message) -> None:
        """Take a mean; where all weights are 0, each rank keeps what it has."""
        came = self._begin_message(message, self._down)
        for part in self._parts(message):
            self._weights[part], self._done[part] = came, True
            for block in self._down.blocks[part] if _travels(came) else ():
                self._flow.fill(self._link(message), block.sent)
                block.decode(block.values, message.peer)

    def _link(self, message: Message) -> Link:
        return self._mesh.links[message.peer]

    def _begin_message(self, message: Message, way: Way) -> float:
        """Receive the head of a message; return the weight of what follows."""
        head = bytearray(_HEAD.size)
        self._flow.fill(self._link(message), memoryview(head))
        number, nbytes, weight = _HEAD.unpack(head)
        expected = self._mesh.reductions, len(way.sent(message)) if _travels(weight) else 0
        if (number, nbytes) != expected or not weight >= 0:
            raise PeerLost(
                message.peer,
                f"sends {nbytes} encoded bytes of reduction {number}, of weight {weight}, and not "
                f"{expected[1]} of reduction {expected[0]}. All ranks reduce vectors of the same "
                "size in the same order, by one codec.",
            )
        return float(weight)


def _travels(weight: float) -> bool:
    return LEAST <= weight < math.inf
