"""What a worker that exchanges with others sends to the driver with a milestone."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...common.arrays import Array, Buffer
from ...errors import RemoteProtocolError
from ...layout import Layout
from ...reduction.sharing import Within
from ...wire.limits import MOST

_HEAD = struct.Struct("<QQQQQBBdd??IB")

_LINK = struct.Struct("<IQ")

MOST_LINKS = 16
"""The busiest links that a worker tells of. With 1000 workers it may have 999."""

ALGORITHMS = ("ring", "direct", "halving", "two_level")


WITHIN = {
    Within.NONE: "",
    Within.SHARED: " Workers of one host read each other's memory.",
    Within.NO_MEMORY: " Workers of one host exchange over sockets, since the system gives no "
    "memory to share.",
    Within.APART: " Workers of one host exchange over sockets, since they cannot open each "
    "other's memory, as in separate containers.",
}


class Milestone(NamedTuple):
    """What it did, and what it has by now.

    Parameters
    ----------
    digest : int
        Of the parameters; see `reduction.digest`.
    rounds : int
        How often the workers have exchanged.
    left_out : int
        Rounds to which this worker added nothing, since what it had is not finite.
    sent, received : int
        Bytes to and from other workers.
    algorithm : int
        Of `ALGORITHMS`, by which the workers have exchanged.
    within : Within
        How workers of one host have reached each other.
    latency, bandwidth : float
        Of the links, in seconds and in bytes a second; 0 where they were not measured.
    copy : ndarray of uint8, shape (nbytes,), optional
        Parameters, and behind them the optimizer's state.
    spoiled : ndarray of uint8, shape (layout.nbytes,), optional
        What was left out first.
    peers : int
        To how many other workers it has sent.
    sent_to : tuple of (int, int)
        The ranks of those to which it has sent most, and how many bytes.
    driver : tuple of int
        Bytes to the driver and from there. The driver knows them itself.
    """

    digest: int
    rounds: int
    left_out: int
    sent: int
    received: int
    algorithm: int
    within: int
    latency: float
    bandwidth: float
    copy: Buffer | None = None
    spoiled: Buffer | None = None
    peers: int = 0
    sent_to: tuple[tuple[int, int], ...] = ()
    driver: tuple[int, int] = (0, 0)

    @property
    def way(self) -> str:
        """The name of the algorithm."""
        return ALGORITHMS[self.algorithm]

    @property
    def links(self) -> str:
        """How the workers have exchanged, for the user."""
        measured = (
            f" A message between them takes {self.latency * 1e3:.2g} ms, and a link carries "
            f"{self.bandwidth / 1e9:.2g} GB/s."
        ) * bool(self.bandwidth)
        return f"Workers exchange by {self.way}.{measured}{WITHIN[Within(self.within)]}"

    def pack(self) -> Buffer:
        """Return it as bytes."""
        there = [part for part in (self.copy, self.spoiled) if part is not None]
        flags = self.copy is not None, self.spoiled is not None
        head = _HEAD.pack(*self[:9], *flags, self.peers, len(self.sent_to))
        head += b"".join(_LINK.pack(*link) for link in self.sent_to)
        return np.concatenate([np.frombuffer(head, np.uint8), *there])


def longest(layout: Layout, copied: int) -> int:
    """Return the most bytes that a milestone has.

    Parameters
    ----------
    layout : Layout
    copied : int
        Bytes of a copy.
    """
    return _HEAD.size + MOST_LINKS * _LINK.size + copied + layout.nbytes


def unpack(data: Buffer, layout: Layout, copied: int) -> Milestone:
    """Return what `Milestone.pack` made bytes of.

    Raises
    ------
    RemoteProtocolError
        They are something else.
    """
    if len(data) < _HEAD.size:
        raise RemoteProtocolError(
            f"Push: expected at least {_HEAD.size} bytes of a milestone, got {len(data)}."
        )
    *numbers, has_copy, has_spoiled, peers, told = _HEAD.unpack_from(data.data)
    links = _links(data[_HEAD.size : _HEAD.size + told * _LINK.size], told, peers)
    rest = data[_HEAD.size + told * _LINK.size :]
    expected = has_copy * copied + has_spoiled * layout.nbytes
    if len(rest) != expected:
        raise RemoteProtocolError(
            f"Push: expected {expected} bytes behind a milestone's numbers, got {len(rest)}."
        )
    counts, (algorithm, within, *speed) = numbers[1:5], numbers[5:]
    fit = max(counts) <= MOST and algorithm < len(ALGORITHMS) and within in [*WITHIN]
    if not (fit and all(0 <= each < math.inf for each in speed)):
        raise RemoteProtocolError(f"Push: expected a milestone's numbers, got {numbers[1:]}.")
    copy = rest[:copied] if has_copy else None
    spoiled = rest[has_copy * copied :] if has_spoiled else None
    return Milestone._make((*numbers, copy, spoiled, peers, links, (0, 0)))


def _links(data: Buffer, told: int, peers: int) -> tuple[tuple[int, int], ...]:
    """Return the ranks to which most was sent, and how many bytes."""
    if not (told <= min(MOST_LINKS, peers) and len(data) == told * _LINK.size):
        raise RemoteProtocolError(
            f"Push: expected at most {MOST_LINKS} of {peers} links, got {told} in {len(data)} "
            "bytes."
        )
    links = tuple(_LINK.iter_unpack(data.tobytes()))
    if any(nbytes > MOST for _, nbytes in links):
        raise RemoteProtocolError(f"Push: expected bytes of at most {MOST}, got {links}.")
    return links


def join(parameters: Buffer, state: Sequence[Array]) -> Buffer:
    """Return parameters, and behind them the optimizer's state, as bytes."""
    return np.concatenate([parameters, *(s.reshape(-1).view(np.uint8) for s in state)])


def split(copy: Buffer, layout: Layout, like: Sequence[Array]) -> tuple[Buffer, list[Array]]:
    """Return what `join` has joined.

    Parameters
    ----------
    copy : ndarray of uint8
    layout : Layout
    like : sequence of ndarray
        Of the shapes and dtypes of the state.
    """
    state, start = [], layout.nbytes
    for each in like:
        state.append(copy[start : start + each.nbytes].view(each.dtype).reshape(each.shape))
        start += each.nbytes
    return copy[: layout.nbytes], state
