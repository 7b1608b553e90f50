"""The driver's side of a run whose workers change the parameters themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np

from ....coordination.cohort import Cohort
from ....coordination.counting import Counted, MilestoneCounter
from ....coordination.exchange import HandedOver, WorkerExchange
from ....coordination.membership import Member
from ....coordination.reports import Reports
from ....coordination.requests import WorkerRequests
from ....coordination.settings import Settings
from ....errors import NonFiniteUpdate, RemoteProtocolError
from ....transport.base import BytesLike
from ....transport.fast_path import Peer
from ....wire.messages import Answer, Awaiting, Directive, Poll, Push, Ready
from ...base import TrainerSetup
from ..push import Copied
from .parameters import SharedParameters

NOT_FINITE = "The update holds NaN or infinity. It was not added to the parameters."


class HogwildTrainer:
    """Shares the parameters with workers, and counts what they add; see `Trainer`.

    Parameters
    ----------
    setup : TrainerSetup
    """

    def __init__(self, setup: TrainerSetup) -> None:
        self.parameters = SharedParameters(setup.layout, setup.initial)
        self._skips = setup.non_finite == "skip"
        self._counter: MilestoneCounter
        self._requests: WorkerRequests

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._requests = requests
        self._counter = MilestoneCounter(
            reports,
            lambda: self.parameters.version,
            self._count,
            lambda: NonFiniteUpdate(NOT_FINITE),
            self._skips,
        )
        if self.parameters.path is not None:
            nbytes, tear = self.parameters.layout.nbytes, self.parameters.tear
            reports.fast.follow(self.parameters.path, nbytes, tear)

    def _count(self, member: Member, message: Push, workers: int) -> Counted:
        version, nbytes = self.parameters.count(), self.parameters.layout.nbytes
        return Counted(version, version - 1 - message.base_version, (nbytes, nbytes))

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`."""
        return HogwildPeer(self.parameters, self._counter, self._requests)

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """See `Trainer.change`: there is one way to add."""
        entered()

    def final(self) -> NonFiniteUpdate | None:
        """See `Trainer.final`; a worker that is still there changes them no more."""
        return self.parameters.close()

    def hand_over(self) -> HandedOver:
        """See `Trainer.hand_over`."""
        self.parameters.close()
        return HandedOver(self.parameters.version, self.parameters.torn)

    def take_over(self, handed: HandedOver) -> bool:
        """See `Trainer.take_over`; workers have the optimizers."""
        self.parameters.go_on(handed.version, handed.torn)
        return False

    def quiesce(self) -> AbstractContextManager[object]:
        """See `Trainer.quiesce`: what is added and not yet counted may be in a copy."""
        return nullcontext()

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """See `Trainer.snapshot`."""
        return self.parameters.snapshot(entered)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        self.parameters.restore(copied)


class HogwildPeer:
    """Answers one worker; see `WorkerExchange`.

    Parameters
    ----------
    parameters : SharedParameters
    counter : MilestoneCounter
    requests : WorkerRequests
    """

    shared = False
    brief = True

    def __init__(
        self, parameters: SharedParameters, counter: MilestoneCounter, requests: WorkerRequests
    ) -> None:
        self._parameters, self._counter, self._requests = parameters, counter, requests

    def open(self) -> None:
        """See `WorkerExchange.open`."""

    def close(self) -> None:
        """See `WorkerExchange.close`."""

    def receive_into(self, message: Push | Poll, nbytes: int) -> None:
        """See `WorkerExchange.receive_into`.

        Raises
        ------
        RemoteProtocolError
            Parameters have come, which are in memory that the worker shares.
        """
        if nbytes:
            name = type(message).__name__
            raise RemoteProtocolError(f"{name}: expected a payload of 0 bytes, got {nbytes}.")

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`."""
        return self._counter.push(member, message).reply, None

    def arm(self, member: Member, peer: Peer) -> None:
        """See `FastExchange.arm`."""
        path = self._parameters.path
        if path is not None:
            arm = partial(peer.arm, path, member, np.empty(0, np.uint8), False)
            self._counter.reports.fast.arm(member, arm)

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`; the payload names the memory."""
        proceed = self._requests.poll(member, message)
        if proceed.directive is not Directive.GO:
            return proceed, None
        named = self._parameters.segment.encode()
        return replace(proceed, version=self._parameters.version), named

    def form(self, member: Member, message: Ready | Awaiting) -> NoReturn:
        """See `WorkerExchange.form`.

        Raises
        ------
        RemoteProtocolError
            Its workers know nothing of each other.
        """
        raise RemoteProtocolError(
            f"{type(message).__name__}: expected workers that know nothing of each other."
        )
