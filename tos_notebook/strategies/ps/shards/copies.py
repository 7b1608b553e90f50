"""Copies of the parameters that stay in the shards until a checkpoint has them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from ....common.arrays import ALIGNMENT, Array, Buffer, aligned_empty
from ....errors import CheckpointError, ClusterUnreachable, TosError, WaitTimeout
from ....layout import Layout
from ....persist.parts import PartPlace, SavedPart
from ....persist.values import transfer
from ..push import Copied
from . import parcel
from .group import Answered, Group
from .slices import Slice
from .writing import REFUSED, WRITING, WRITTEN

ANSWER = 120.0
"""Seconds for shards to do what they are told, and to send what they have."""

WRITE = 600.0
"""Seconds for shards to write their parts of a checkpoint."""

_FIRST_LOOK, _LAST_LOOK, _LATER = 0.01, 0.5, 1.25
"""Seconds between two questions whether they have, and the factor from one to the next: what is
asked late is late by a quarter at most."""


class Held(NamedTuple):
    """What one shard has of a copy."""

    start: int
    """Of its parameters in the whole buffer."""
    state: dict[str, Any]
    """Of its combiner, as `Copied.state`."""
    arrays: list[Array]
    """Its parameters, and those of the state."""


def gather(nbytes: int, version: int, swaps: int, held: Sequence[Held]) -> Copied:
    """Return what shards have of a copy, put together.

    Raises
    ------
    ValueError
        They do not fill a buffer of that many bytes.
    """
    end = 0
    for start, _, (own, *_) in held:
        # There is nothing but padding between two of them, or behind the first in the second.
        if own.dtype != np.uint8 or own.ndim != 1 or abs(start - end) >= ALIGNMENT:
            raise ValueError(f"expected bytes from {end} on, got {own.dtype} from {start} on")
        end = start + len(own)
    if not 0 <= nbytes - end < ALIGNMENT:
        raise ValueError(f"expected parts of {nbytes} bytes, got {end}")
    center = aligned_empty(nbytes)
    center[...] = 0
    stripes: list[Any] = []
    arrays: list[Array] = []
    for start, state, (own, *others) in held:
        center[start : start + len(own)] = own
        stripes += [transfer(s, others, arrays) for s in state.get("stripes", ())]
    return Copied(center, version, {"stripes": stripes, "tensors": [], "swaps": swaps}, arrays)


def split(parts: Sequence[Slice], copied: Copied, state: bool) -> list[Buffer]:
    """Return what each shard begins with, packed.

    Parameters
    ----------
    parts : sequence of Slice
    copied : Copied
    state : bool
        Whether the combiner's rules begin with the state that is there.
    """
    stripes = copied.state.get("stripes") if state else None
    first, payloads = 0, []
    for part in parts:
        arrays: list[Array] = [copied.center[part.start : part.stop]]
        own = None
        if stripes is not None:
            mine: list[Array] = []
            chosen = stripes[first : first + part.stripes]
            own = {"stripes": [transfer(s, copied.arrays, mine) for s in chosen], "tensors": []}
            arrays += mine
        first += part.stripes
        payloads.append(parcel.pack({"version": copied.version, "state": own}, arrays))
    return payloads


def to_all(group: Group, what: str, payloads: list[Buffer]) -> None:
    """Change something at all shards; if only some of them obey, all are lost.

    Raises
    ------
    TosError
        Why one did not.
    """
    try:
        group.command(what, payloads, ANSWER)
    except TosError as error:
        group.lose(ClusterUnreachable(f"Not all shards could {what}: {error}"))
        raise


class Copies:
    """The copies that the shards of one generation hold.

    Parameters
    ----------
    group : Group
    layout : Layout
    parts : sequence of Slice
    changed : Condition
        Its lock lets one order at a time to all shards; notified when a copy is released.

    Attributes
    ----------
    refused : str or None
        Why shards cannot write to the folder of checkpoints; None while they can.
    """

    def __init__(
        self, group: Group, layout: Layout, parts: Sequence[Slice], changed: threading.Condition
    ) -> None:
        self.group, self.layout, self.parts = group, layout, parts
        self.refused: str | None = None
        self._changed = changed
        self._last = 0
        self._held: set[int] = set()

    def hold(self) -> int:
        """Return the number of another copy."""
        with self._changed:
            self._last += 1
            self._held.add(self._last)
            return self._last

    def forget(self, number: int) -> None:
        """Let shards forget a copy, if they are there; may be repeated."""
        with self._changed:
            if number not in self._held:
                return
            with suppress(TosError):
                self.order("forget", {"copy": number})
            self._held.discard(number)
            self._changed.notify_all()

    def settle(self, timeout: float) -> None:
        """Wait until no copy is held, or as long as that helps."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self.group.over, timeout)

    def order(self, what: str, value: Any, *each: Any) -> list[Answered]:
        """Give all shards an order; see `Group.command`.

        Parameters
        ----------
        what : str
        value : mapping
            For all.
        *each : mapping
            For one each.

        Raises
        ------
        CheckpointError
            They have ended.
        TosError
            One is lost, or could not obey.
        """
        own: Sequence[Any] = each or ({},) * self.group.count
        with self._changed:
            if self.group.over:
                raise CheckpointError(
                    "The shards of the parameters have ended before their copy was saved."
                )
            return self.group.command(what, [parcel.pack({**value, **o}) for o in own], ANSWER)


class ShardedCopy:
    """See `CopyApart`.

    Parameters
    ----------
    copies : Copies
    number : int
        By which shards know it.
    version : int
    swaps : int
        See `ShardedParameters`.
    """

    def __init__(self, copies: Copies, number: int, version: int, swaps: int) -> None:
        self.version = version
        self._copies, self._number, self._swaps = copies, number, swaps

    def described(self) -> dict[str, Any]:
        """Return what there is to know beside the parts, as plain JSON."""
        nbytes = self._copies.layout.nbytes
        return {"version": self.version, "nbytes": nbytes, "swaps": self._swaps}

    def write(self, place: PartPlace) -> list[SavedPart]:
        """See `CopyApart.write`.

        Raises
        ------
        CheckpointError
            A shard could not; others may have written theirs.
        WaitTimeout
            It takes too long.
        """
        parts = self._copies.parts
        asked = {"copy": self._number, "place": list(place)}
        each = [
            {"own": f"{number:04d}", "described": {"start": part.start}}
            for number, part in enumerate(parts)
        ]
        self._copies.order("write", asked, *each)
        outcomes = self._outcomes()
        for number, outcome in enumerate(outcomes, 1):
            if outcome["state"] == REFUSED:
                self._copies.refused = outcome["why"]
            if outcome["state"] != WRITTEN:
                raise CheckpointError(
                    f"Shard {number} cannot write its part of a checkpoint. {outcome['why']}"
                )
        return [SavedPart(*outcome["part"]) for outcome in outcomes]

    def _outcomes(self) -> list[dict[str, Any]]:
        group, look, end = self._copies.group, _FIRST_LOOK, monotonic() + WRITE
        while True:
            answers = self._copies.order("written", {"copy": self._number})
            outcomes = [parcel.unpack(payload)[0] for _, payload in answers]
            late = [str(n + 1) for n, o in enumerate(outcomes) if o["state"] == WRITING]
            if not late:
                return outcomes
            if monotonic() > end:
                found = WaitTimeout(
                    f"Expected shards to write their parts of a checkpoint within {WRITE:g} s; "
                    f"shard {', '.join(late)} did not. See whether its executor reaches the folder."
                )
                # The next one would wait as long.
                self._copies.refused = str(found)
                raise found
            # Without the lock: others give orders meanwhile.
            with group.changed:
                group.changed.wait_for(lambda: group.over, look)
            look = min(_LATER * look, _LAST_LOOK)

    def fetch(self) -> Copied:
        """See `CopyApart.fetch`."""
        answers = self._copies.order("send", {"copy": self._number})
        held = held_in(self._copies.parts, answers)
        return gather(self._copies.layout.nbytes, self.version, self._swaps, held)

    def release(self) -> None:
        """See `CopyApart.release`."""
        self._copies.forget(self._number)


def joined(value: dict[str, Any], arrays: list[Array]) -> Copied:
    """Return a copy again from the parts that shards have written.

    Parameters
    ----------
    value : mapping
        `ShardedCopy.described`, with the value of each part and how many arrays it has.
    arrays : list of ndarray

    Raises
    ------
    TypeError, ValueError, LookupError
        It is something else.
    """
    version, first = value["version"], 0
    held = []
    for part, count in value["parts"]:
        if part["version"] != version:
            raise ValueError(f"expected parts of version {version}, got {part['version']}")
        held.append(Held(part["start"], part["state"], arrays[first : first + count]))
        first += count
    return gather(value["nbytes"], version, value["swaps"], held)


def held_in(parts: Sequence[Slice], answers: Sequence[Answered]) -> list[Held]:
    """Return what shards have sent of a copy."""
    sent = [parcel.unpack(payload) for _, payload in answers]
    both = zip(parts, sent, strict=True)
    return [Held(part.start, value["state"], arrays) for part, (value, arrays) in both]
