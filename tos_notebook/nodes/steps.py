"""What the driver knows of steps that all nodes that train make together, such as an all-reduce.

A node that has no rows makes a step once another one is ready for it, and none makes a step for
which no node has rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import RemoteProtocolError
from .context import TRAINING
from .peers import OVER, READY, SHORT
from .roster import Node, Roster
from .talk import Message

LONGEST = 30.0
"""Seconds that an answer may wait for another node."""


@dataclass
class _Group:
    """The nodes that read one queue, by their numbers."""

    last: int = 0
    """The last step for which a node has rows."""
    over: set[int] = field(default_factory=set)


class Steps:
    """Tells nodes whether another one has rows for a step.

    Parameters
    ----------
    roster : Roster
        Whose lock it takes.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._groups: dict[tuple[int, str], _Group] = {}

    def answer(self, message: Message) -> Message:
        """Take what a node says of a step; wait a while for another one that has rows for it.

        Parameters
        ----------
        message : mapping
            ``"start"`` of the cluster, ``"queue"``, ``"node"`` and ``"step"``, a number from 1;
            ``"is"``, how the node comes to it; ``"wait"``, seconds.

        Returns
        -------
        mapping
            ``"go"``: whether a node has rows. ``"missing"``: names of those that may have some.
        """
        number, step, how = int(message["node"]), int(message["step"]), str(message["is"])
        if how not in (READY, SHORT, OVER):
            raise RemoteProtocolError(f"Expected how a node comes to a step, got {how!r:.80}.")
        roster, place = self._roster, (int(message["start"]), str(message["queue"]))
        with roster.changed:
            group = self._groups.setdefault(place, _Group())
            if how == READY:
                group.last = max(group.last, step)
            elif how == OVER:
                group.over.add(number)
            roster.wake()

        def known() -> bool:
            return group.last >= step or not self._missing(group)

        roster.wait_for(known, min(float(message["wait"]), LONGEST))
        with roster.changed:
            missing = [node.name for node in self._missing(group)]
            return {"go": group.last >= step, "missing": missing}

    def _missing(self, group: _Group) -> list[Node]:
        """Return the nodes that may still come with rows."""
        nodes = sorted(self._roster.nodes.items())
        return [
            node
            for number, node in nodes
            if node.meta["job_name"] in TRAINING and not node.ended and number not in group.over
        ]
