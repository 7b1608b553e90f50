"""All-reduce algorithms as plain data: who sends which part of a vector to whom, in which round.

A vector has so many parts of nearly equal size. A rank sends and receives at the same time within
a round, and begins the next one when both are done. Each part is summed by one rank, whose bytes
are copied to all others: so all of them end with the same bits, whatever the order of a sum. Only
with ``at_once``, for short vectors, each rank sums all of it, in the same order as all others.

=============  =================  ==========================  ================================
schedule       rounds             bytes that a rank sends      sums
=============  =================  ==========================  ================================
``ring``       2(n - 1)           2(n - 1)/n of the vector     part k from rank k on
``direct``     2                  2(n - 1)/n of the vector     in the order of the ranks
``halving``    2 log2 n           2(n - 1)/n of the vector     pairwise
``two_level``  2 + the leaders'   leaders only, between hosts  on each host, then its leaders
``at_once``    1                  n - 1 times the vector       in the order of the ranks
=============  =================  ==========================  ================================

There are n ranks, at least 1. The bytes of ``halving`` are those of a power of two. Otherwise some
ranks lend their vector to another one, and get the result back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Message(NamedTuple):
    """Some parts of a vector, on their way from or to a peer.

    Attributes
    ----------
    peer : int
        The other rank.
    start, stop : int
        The first part, and the one behind the last.
    """

    peer: int
    start: int
    stop: int


class Round(NamedTuple):
    """What one rank sends and receives at the same time.

    Attributes
    ----------
    sends : tuple of Message
        What to send, as it is when the round begins.
    receives : tuple of Message
        What to receive, in the order in which it is added.
    adds : bool
        Whether to add what comes, rather than to copy it.
    own : int
        How many come before the rank's own numbers are added.
    final : bool
        Whether what comes completes the sum over all ranks.
    """

    sends: tuple[Message, ...] = ()
    receives: tuple[Message, ...] = ()
    adds: bool = False
    own: int = 0
    final: bool = False


Rounds = tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """An algorithm for a number of ranks.

    Attributes
    ----------
    name : str
        That of the function which makes it.
    parts : int
        In how many parts it divides a vector.
    ranks : tuple of tuple of Round
        The rounds of each rank.
    """

    name: str
    parts: int
    ranks: tuple[Rounds, ...]

    @property
    def n(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def bounds(self, size: int) -> tuple[int, ...]:
        """Return where each part of a vector begins, and where the last one ends.

        Parameters
        ----------
        size : int
            Elements of the vector.

        Returns
        -------
        tuple of int, of length parts + 1
            Parts differ by one element at most.
        """
        return tuple(size * part // self.parts for part in range(self.parts + 1))


def ring(n: int) -> Schedule:
    """Return the ring: each rank sends to the next one only, in 2(n - 1) rounds.

    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
    JPDC 69(2), 2009.
    """

    def rounds(rank: int) -> Iterator[Round]:
        def one(peer: int, part: int) -> tuple[Message]:
            return (Message(peer % n, part % n, part % n + 1),)

        for step in range(n - 1):
            sent, received = one(rank + 1, rank - step), one(rank - 1, rank - step - 1)
            yield Round(sent, received, adds=True, final=step == n - 2)
        for step in range(n - 1):
            yield Round(one(rank + 1, rank - step + 1), one(rank - 1, rank - step))

    return Schedule("ring", n, tuple(tuple(rounds(rank)) for rank in range(n)))


def direct(n: int) -> Schedule:
    """Return the schedule of two rounds in which each rank sums one part for all.

    It adds in the order of the ranks, as ``((x0 + x1) + x2) ...`` does in NumPy.
    """

    def rounds(rank: int) -> Iterator[Round]:
        others = [(rank + step) % n for step in range(1, n)]
        yield Round(
            tuple(Message(peer, peer, peer + 1) for peer in others),
            tuple(Message(peer, rank, rank + 1) for peer in sorted(others)),
            adds=True,
            # Of two numbers the order does not matter.
            own=rank if rank > 1 else 0,
            final=True,
        )
        yield Round(
            tuple(Message(peer, rank, rank + 1) for peer in others),
            # The one comes first that sends to this rank first.
            tuple(Message(peer, peer, peer + 1) for peer in reversed(others)),
        )

    return Schedule("direct", n, tuple(tuple(rounds(rank)) for rank in range(n)))


def at_once(n: int) -> Schedule:
    """Return the schedule of one round in which each rank sends its vector to all others.

    It is `direct`, with the bits of that, for vectors of which a message takes longer than the
    bytes: it has that name, too.
    """

    def round_of(rank: int) -> Round:
        others = [(rank + step) % n for step in range(1, n)]
        return Round(
            tuple(Message(peer, 0, 1) for peer in others),
            tuple(Message(peer, 0, 1) for peer in sorted(others)),
            adds=True,
            own=rank if rank > 1 else 0,
            final=True,
        )

    return Schedule("direct", 1, tuple((round_of(rank),) for rank in range(n)))


def halving(n: int) -> Schedule:
    """Return recursive halving, then doubling: pairs of ranks exchange halves of halves.

    Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
    MPICH", IJHPCA 19(1), 2005.

    It has 2 log2 n rounds for a power of two, and two more for another number.
    """
    members = 1 << (n.bit_length() - 1)
    lent = n - members
    # Of the first ranks each odd one lends its vector to the one before.
    ranks = [*range(0, 2 * lent, 2), *range(2 * lent, n)]
    whole = (0, members)

    def halves(member: int) -> Iterator[Round]:
        start, distance = 0, members // 2
        while distance:
            peer = ranks[member ^ distance]
            low = Message(peer, start, start + distance)
            high = Message(peer, start + distance, start + 2 * distance)
            kept, given = (high, low) if member & distance else (low, high)
            yield Round((given,), (kept,), adds=True, final=distance == 1)
            start, distance = kept.start, distance // 2

    def rounds(rank: int) -> Iterator[Round]:
        if rank not in ranks:
            lender = (Message(rank - 1, *whole),)
            yield Round(sends=lender)
            yield Round(receives=lender)
            return
        borrowed = (Message(rank + 1, *whole),) if rank < 2 * lent else ()
        if borrowed:
            yield Round(receives=borrowed, adds=True)
        halved = list(halves(ranks.index(rank)))
        yield from halved
        yield from (Round(made.receives, made.sends) for made in reversed(halved))
        if borrowed:
            yield Round(sends=borrowed)

    return Schedule("halving", members, tuple(tuple(rounds(rank)) for rank in range(n)))


def pairs(hosts: Sequence[Hashable]) -> Schedule:
    """Return the schedule in which two ranks of a host exchange, to measure how long that takes.

    Parameters
    ----------
    hosts : sequence of hashable
        The host of each rank. Its first rank and its second one make a pair, and so on.

    Returns
    -------
    Schedule
        One without a pair has no rounds.
    """
    ranks: list[Rounds] = [()] * len(hosts)
    alone: dict[Hashable, int] = {}
    for rank, host in enumerate(hosts):
        if host not in alone:
            alone[host] = rank
            continue
        pair = alone.pop(host), rank
        for member, rounds in zip(pair, ring(2).ranks, strict=True):
            ranks[member] = tuple(
                made._replace(
                    sends=tuple(each._replace(peer=pair[each.peer]) for each in made.sends),
                    receives=tuple(each._replace(peer=pair[each.peer]) for each in made.receives),
                )
                for made in rounds
            )
    return Schedule("pairs", 2, tuple(ranks))


def two_level(hosts: Sequence[Hashable], between: Callable[[int], Schedule] = ring) -> Schedule:
    """Return the schedule in which one rank of each host speaks for its host.

    Parameters
    ----------
    hosts : sequence of hashable
        The host of each rank. The first rank on a host leads it.
    between : callable
        Takes a number of leaders; returns the schedule between them.

    Returns
    -------
    Schedule
        The others send all to their leader, and receive all from it.
    """
    groups: dict[Hashable, list[int]] = {}
    for rank, host in enumerate(hosts):
        groups.setdefault(host, []).append(rank)
    leaders = [group[0] for group in groups.values()]
    inner = between(len(leaders))
    whole = (0, inner.parts)

    def of_leader(message: Message) -> Message:
        return message._replace(peer=leaders[message.peer])

    def rounds(rank: int) -> Iterator[Round]:
        leader, *led = groups[hosts[rank]]
        if rank != leader:
            yield Round(sends=(Message(leader, *whole),))
            yield Round(receives=(Message(leader, *whole),))
            return
        others = tuple(Message(peer, *whole) for peer in led)
        if others:
            yield Round(receives=others, adds=True, final=len(leaders) == 1)
        for made in inner.ranks[leaders.index(rank)]:
            yield made._replace(
                sends=tuple(map(of_leader, made.sends)),
                receives=tuple(map(of_leader, made.receives)),
            )
        if others:
            yield Round(sends=others)

    return Schedule("two_level", inner.parts, tuple(tuple(rounds(r)) for r in range(len(hosts))))
