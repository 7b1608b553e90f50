"""A schedule of all-reduce, run in one thread on NumPy vectors: no sockets, no clocks."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

import numpy as np

from tos_notebook.common.arrays import Array
from tos_notebook.reduction.schedules import Round, Schedule

Link = tuple[int, int]
"""From which rank to which."""


class Simulation:
    """The sum of vectors, one for each rank, which it replaces.

    A rank sends all of a round at its begin, waits for each message in turn, and then until its own
    are received. Two ranks that name other parts, or a part that a rank sends and changes in one
    round, is an error of the schedule; so is a rank that waits for ever.
    """

    def __init__(self, schedule: Schedule, vectors: Sequence[Array]) -> None:
        self.vectors = list(vectors)
        self.sent: dict[Link, int] = defaultdict(int)
        """Bytes on each link."""
        self._bounds = schedule.bounds(vectors[0].size)
        self._links: dict[Link, deque[tuple[tuple[int, int], Array]]] = defaultdict(deque)
        waiting = {rank: self._run(rank, schedule.ranks[rank]) for rank in range(schedule.n)}
        self._moves = 0
        while waiting:
            before = self._moves
            ended = [rank for rank, run in waiting.items() if next(run, self) is self]
            assert ended or self._moves > before, f"ranks {sorted(waiting)} wait without an end"
            for rank in ended:
                del waiting[rank]

    def _run(self, rank: int, rounds: Sequence[Round]) -> Iterator[None]:
        vector = self.vectors[rank]
        for made in rounds:
            changed = {p for _, start, stop in made.receives for p in range(start, stop)}
            for peer, start, stop in made.sends:
                assert not changed & {*range(start, stop)}, "what is sent is changed"
                part = vector[self._slice(start, stop)]
                self._links[rank, peer].append(((start, stop), part.copy()))
                self.sent[rank, peer] += part.nbytes
                self._moves += 1
            own = None
            for number, (peer, start, stop) in enumerate(made.receives):
                link = self._links[peer, rank]
                while not link:
                    yield
                self._moves += 1
                named, came = link.popleft()
                assert named == (start, stop), "two ranks name other parts"
                mine = vector[self._slice(start, stop)]
                if made.adds and made.own and not number:
                    own = mine.copy()
                if made.adds and (own is None or number):
                    np.add(mine, came, mine)
                else:
                    mine[:] = came
                if own is not None and number + 1 == made.own:
                    np.add(mine, own, mine)
            # Over shared memory, a peer reads what is sent where it is.
            while any(self._links[rank, message.peer] for message in made.sends):
                yield

    def _slice(self, start: int, stop: int) -> slice:
        return slice(self._bounds[start], self._bounds[stop])
