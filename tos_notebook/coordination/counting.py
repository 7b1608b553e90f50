"""Counts milestones whose parameters do not pass through the driver's connections.

Workers move the parameters themselves, or others do. Each milestone comes as a push without
parameters, and counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import NonFiniteUpdate
from ..wire.messages import Push, Reply
from .membership import Member
from .reports import Reports, check_range


class Counted(NamedTuple):
    """What a milestone has made."""

    version: int
    staleness: int | None
    """How many came between its base and this; None if unknown."""
    traffic: tuple[int, int] = (0, 0)
    """Bytes of parameters that came from the worker, and went to it."""


class Answered(NamedTuple):
    """What a worker is told of a milestone."""

    reply: Reply
    bounded: bool
    """Whether the sync mode bounds how far workers may be apart."""
    workers: int
    """Active ones."""


@dataclass(frozen=True, slots=True)
class MilestoneCounter:
    """Counts milestones, and answers them.

    Parameters
    ----------
    reports : Reports
    version : callable
        Returns how many milestones count.
    count : callable
        Counts one, of so many active workers.
    not_finite : callable
        Returns the error of a milestone that is not finite.
    skips : bool
        Whether such a milestone is left out; it ends the run otherwise.
    tear : callable
        Called before such a milestone ends the run.
    """

    reports: Reports
    version: Callable[[], int]
    count: Callable[[Member, Push, int], Counted]
    not_finite: Callable[[], NonFiniteUpdate]
    skips: bool = False
    tear: Callable[[], object] = lambda: None

    def push(self, member: Member, message: Push) -> Answered:
        """Count a milestone once, and say what the worker does next.

        Parameters
        ----------
        member : Member
        message : Push
            The milestone.

        Raises
        ------
        RemoteProtocolError
            It contradicts itself, or what was counted before; nothing was changed.
        """
        check_range("base_version", message.base_version, 0, self.version())
        status, _, workers = self.reports.admit(member, message)
        merging, version = status == "committed", self.version()
        try:
            if merging and message.finite:
                counted = self.count(member, message, workers)
                version = counted.version
                self.reports.merged(member, message, *counted, workers)
            elif merging:
                self._refuse(member, message)
                status = "skipped"
        except BaseException:
            self.reports.abandon(merging)
            raise
        finally:
            member.suspect = None
        reply, bounded = self.reports.decide(member, message, status, merging, version)
        return Answered(reply, bounded, workers)

    def _refuse(self, member: Member, message: Push) -> None:
        error = self.reports.explain(member, message, self.not_finite())
        if self.skips:
            self.reports.skip(member, message, error)
            return
        self.reports.revoke(member, message, lambda: None)
        self.tear()
        self.reports.fail(error)
