"""The driver's side of one worker: it counts what the worker has trained, and answers."""

from __future__ import annotations

import json
from typing import NoReturn, Protocol

from ...coordination.membership import Member
from ...errors import RemoteProtocolError
from ...transport.base import BytesLike
from ...wire.messages import Answer, Awaiting, Directive, Poll, Proceed, Push, Ready, Reply
from .pace import Pace
from .parameters import ServedParameters


class Counter(Protocol):
    """Counts milestones, and says what workers do next."""

    def push(self, member: Member, message: Push) -> Reply:
        """Count a milestone.

        Parameters
        ----------
        member : Member
        message : Push
            The milestone.

        Returns
        -------
        Reply
            What became of it, and what the worker does next.

        Raises
        ------
        RemoteProtocolError
            It contradicts itself, or what was counted before; nothing was changed.
        """

    def poll(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker.

        Parameters
        ----------
        member : Member
        message : Poll
            What it has.

        Returns
        -------
        Proceed
            With a version if it is to train.

        Raises
        ------
        SessionClosed
            A later attempt has taken its place.
        """


class SessionPeer:
    """Answers one worker; see `WorkerExchange`.

    Parameters
    ----------
    parameters : ServedParameters
    counter : Counter
    pace : Pace
    """

    shared = brief = False

    def __init__(self, parameters: ServedParameters, counter: Counter, pace: Pace) -> None:
        self._parameters, self._counter, self._pace = parameters, counter, pace

    def open(self) -> None:
        """See `WorkerExchange.open`: while the worker loads its program, the servers start."""
        self._parameters.start()

    def close(self) -> None:
        """See `WorkerExchange.close`."""
        self._pace.end(self)

    def receive_into(self, message: Push | Poll, nbytes: int) -> None:
        """See `WorkerExchange.receive_into`.

        Raises
        ------
        RemoteProtocolError
            Parameters have come, which do not pass through the driver.
        """
        if nbytes:
            name = type(message).__name__
            raise RemoteProtocolError(f"{name}: expected a payload of 0 bytes, got {nbytes}.")

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`."""
        try:
            reply = self._counter.push(member, message)
        finally:
            self._pace.end(self)
        if reply.directive is Directive.GO:
            self._pace.begin(self)
        return reply, None

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`."""
        # The end of an epoch, too, may have told it to wait.
        self._pace.end(self)
        proceed = self._counter.poll(member, message)
        if proceed.version is None:
            return proceed, None
        self._parameters.serve()
        self._pace.begin(self)
        return proceed, json.dumps(self._parameters.addresses).encode()

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
