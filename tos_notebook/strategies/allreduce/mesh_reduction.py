"""Counts the milestones of workers that exchange with each other, and keeps the latest copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np

from ...common.arrays import Array, Buffer
from ...coordination.cohort import Step, StepReport
from ...coordination.membership import Member, Traffic
from ...errors import CombinerError, ConnectError, NonFiniteUpdate, RemoteProtocolError, TosError
from ...events import DRIVER
from ...layout import Layout
from ...transport.base import BytesLike
from ...wire.messages import Answer, Awaiting, Directive, Formed, Poll, Proceed, Push, Ready, Reply
from ..ps.non_finite import find_non_finite
from .milestone import Milestone, join, longest, split, unpack
from .reduction import Reduction


class MeshReduction(Reduction):
    """Takes what workers have made together; see `Reduction`.

    Each milestone counts for all of them or for none. One worker brings a copy of what all have
    then, from which they continue when one of them is lost.
    """

    def __init__(self, *arguments: Any, detours: bool = False) -> None:
        super().__init__(*arguments)
        self._detours = detours
        self._ranks: list[int] = []
        self._state = super().state()
        self._latest: tuple[Callable[[], Buffer | None], int] = (lambda: None), 0

    @property
    def copied(self) -> int:
        """Bytes of a copy."""
        return self.layout.nbytes + sum(each.nbytes for each in self._state)

    @property
    def layout(self) -> Layout:
        """Of the parameters."""
        return self._parameters.layout

    def state(self) -> list[Array]:
        """See `Reduction.state`."""
        return [each.copy() for each in self._state]

    def restore(self, state: list[Array]) -> None:
        """Continue with a state of the optimizer, or outer optimizer."""
        self._state = [each.copy() for each in state]
        self._latest = (lambda: None), 0

    def report(self, member: Member, message: Push, milestone: Milestone) -> Reply:
        """Wait a while for the milestones of the other workers."""
        return self._enter(member, message, milestone)

    def proceed(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker, which learns by the version what counts."""
        proceed = self._proceed(member, message)
        # Perhaps its step was made before it has asked.
        go = proceed.directive is Directive.GO
        return replace(proceed, version=self._parameters.version if go else None)

    def form(
        self, member: Member, message: Ready | Awaiting
    ) -> tuple[Formed | Proceed, Buffer | None]:
        """Let a worker wait for all others; return what they begin with."""
        if isinstance(message, Awaiting):
            return self._cohort.wait_on(member, message, self._unconnected), None
        formed = self._cohort.form(member, message)
        if isinstance(formed, Proceed):
            return formed, None
        copy, version = self._shared_copy()
        return replace(formed, version=version), copy

    def _shared_copy(self) -> tuple[Buffer, int]:
        """Return what workers begin with, and its version: one for all that connect at a time."""
        with self.lock:
            version = self._parameters.version
            made, of = self._latest
            copy = made()
            if copy is None or of != version:
                copy = join(self._parameters.read()[0], self._state)
                # It goes with the last answer that brings it.
                self._latest = ref(copy), version
            return copy, version

    def _unconnected(self, cause: str) -> None:
        """Give up links between workers; see `MeshTrainer`."""
        if self._detours:
            self._reports.end_job(cause)
            return
        self._reports.fail(
            ConnectError(
                f"{cause} Let executors reach each other, or train with "
                "strategy='allreduce:star', which needs the driver only."
            )
        )

    def _find_non_finite(self, report: StepReport) -> NonFiniteUpdate | None:
        spoiled = report.brought.spoiled
        return None if spoiled is None else find_non_finite(self._parameters.layout, spoiled)

    def _leave_out(self, report: StepReport, error: TosError) -> bool:
        """Publish the rounds to which a worker added nothing; it trained in all others."""
        message = report.message
        rounds = min(1.0, report.brought.left_out / max(1, report.brought.rounds))
        steps = max(1, round(message.steps * rounds))
        self._reports.skip(report.member, message._replace(steps=steps), error)
        return True

    def _optimizer_steps(self, step: Step) -> int:
        if self._updater is None:
            return super()._optimizer_steps(step)
        return max((report.brought.rounds for report in step), default=0)

    def _traffic(self, report: StepReport) -> Traffic:
        return traffic_of(report.brought, report.member.partition, self._ranks)

    def _merge(self, step: Step, good: Step) -> int:
        _require_same(step)
        # A step is of all workers that are connected to each other, in the order of their ranks.
        self._ranks = [report.member.partition for report in step]
        first = step[0]
        if first.brought.copy is None:
            raise RemoteProtocolError(
                f"Push: expected a copy of the parameters of partition {first.member.partition}, "
                "got none."
            )
        parameters, state = split(first.brought.copy, self._parameters.layout, self._state)
        kept = [each.copy() for each in state]
        version = self._parameters.adopt(parameters)
        # Only now, as nothing else can fail: a snapshot has both or neither.
        self._state = kept
        if first.brought.bandwidth:
            self._reports.describe_links(first.brought.way, first.brought.links)
        return version


def _require_same(step: Step) -> None:
    """Raise CombinerError if workers hold different parameters."""
    first, *others = step
    for other in others:
        if other.brought.digest != first.brought.digest:
            pair = first.member, other.member
            raise CombinerError(
                "Expected the same parameters on all workers after a milestone, but those of "
                f"partition {pair[1].partition} on {pair[1].host} are not those of partition "
                f"{pair[0].partition} on {pair[0].host}. Processors of two kinds compute "
                "differently: use hosts of one kind, or train with strategy='allreduce:star'."
            )


class MeshPeer:
    """Serves one worker that exchanges with others; see `WorkerExchange`.

    Parameters
    ----------
    reduction : MeshReduction
    """

    shared = brief = False

    def __init__(self, reduction: MeshReduction) -> None:
        self._reduction = reduction
        self._layout = reduction.layout
        self._received: Buffer = np.empty(0, np.uint8)
        self._came = self._received
        # Bytes that went to the worker since its latest milestone.
        self._went = 0

    def open(self) -> None:
        """See `WorkerExchange.open`."""

    def close(self) -> None:
        """See `WorkerExchange.close`."""
        self._received = self._came = np.empty(0, np.uint8)

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """See `WorkerExchange.receive_into`.

        Raises
        ------
        RemoteProtocolError
            No milestone has that length.
        """
        most = longest(self._layout, self._reduction.copied) if isinstance(message, Push) else 0
        if nbytes > most:
            raise RemoteProtocolError(
                f"{type(message).__name__}: expected a payload of at most {most} bytes, got "
                f"{nbytes}."
            )
        if len(self._received) < nbytes:
            self._received = np.empty(nbytes, np.uint8)
        self._came = self._received[:nbytes]
        return self._came.data if nbytes else None

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`."""
        milestone = unpack(self._came, self._layout, self._reduction.copied)
        milestone = milestone._replace(driver=(len(self._came), self._went))
        self._went = 0
        return self._reduction.report(member, message, milestone), None

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`."""
        return self._reduction.proceed(member, message), None

    def form(self, member: Member, message: Ready | Awaiting) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.form`."""
        answer, copy = self._reduction.form(member, message)
        self._went += 0 if copy is None else len(copy)
        return answer, copy


def traffic_of(milestone: Milestone, own: int, partitions: Sequence[int]) -> Traffic:
    """Return what a worker has sent, and to whom.

    Parameters
    ----------
    milestone : Milestone
        The worker's.
    own : int
        Its partition.
    partitions : sequence of int
        Of all workers, by rank.

    Raises
    ------
    RemoteProtocolError
        There is no such rank.
    """
    sent_to = milestone.sent_to
    if any(rank >= len(partitions) for rank, _ in sent_to):
        raise RemoteProtocolError(f"Push: expected ranks below {len(partitions)}, got {sent_to}.")
    up, down = milestone.driver
    links = [(own, partitions[rank], nbytes) for rank, nbytes in sent_to]
    links += [(own, DRIVER, up), (DRIVER, own, down)]
    more = milestone.peers - len(sent_to)
    return Traffic(milestone.sent, milestone.received, tuple(links), more)
