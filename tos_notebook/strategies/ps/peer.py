"""The server's side of one worker's exchange: it receives updates, merges them, and replies."""

from __future__ import annotations

from typing import NoReturn, Protocol

from ...common.arrays import Buffer
from ...coordination.membership import Member
from ...coordination.reports import Reports
from ...coordination.settings import Settings
from ...errors import RemoteProtocolError, SessionClosed
from ...layout import Layout
from ...transport.base import BytesLike
from ...transport.fast_path import Peer
from ...wire.messages import Answer, Awaiting, Directive, Poll, Proceed, Push, Ready, Reply
from .peer_replica import PeerReplica

_WAIT = Directive.WAIT
"""Python 3.11 calls a function to look a member up in its enumeration: too long for every push."""


class Merger(Protocol):
    """Takes what workers push, and says what they adopt."""

    blocks: bool
    """Whether a push waits for other workers."""

    @property
    def keeps_own(self) -> bool:
        """Whether workers continue with parameters of their own."""

    def push(
        self, member: Member, message: Push, update: Buffer, traffic: tuple[int, int] = (0, 0)
    ) -> Reply:
        """Merge a push; on return `update` holds what the worker adopts.

        Parameters
        ----------
        member : Member
        message : Push
        update : ndarray, shape (layout.nbytes,), uint8
        traffic : tuple of int, optional
            Bytes of parameters that have come from the worker, and gone to it, since its last push.

        Raises
        ------
        RemoteProtocolError
            The push contradicts itself, or what was committed before; nothing was changed.
        """

    def arm(self, member: Member, peer: Peer, update: Buffer, apart: bool) -> None:
        """Let a worker's next pushes take the fast path, if they may.

        Parameters
        ----------
        member : Member
        peer : Peer
            The connection's.
        update : ndarray, shape (layout.nbytes,), uint8
            Where its updates lie.
        apart : bool
            Whether they come by the connection, and do not lie there already.
        """

    def poll(self, member: Member, message: Poll, center: Buffer, owed: bool) -> Proceed:
        """Answer a waiting worker; fill `center` with the parameters that it continues with.

        Parameters
        ----------
        member : Member
        message : Poll
        center : ndarray, shape (layout.nbytes,), uint8
            Left as it is if the worker waits on, or continues with its own.
        owed : bool
            Whether it has none of its own: it has just joined, or had to wait and its last reply
            came without.

        Raises
        ------
        SessionClosed
            A later attempt has taken its place.
        """


class PeerExchange:
    """Exchanges parameters with one worker; see `WorkerExchange`.

    Parameters
    ----------
    layout : Layout
    merging : Merger
    reports : Reports
    segment : ndarray, shape (layout.nbytes,), uint8, optional
        Memory that the worker shares.
    """

    def __init__(
        self, layout: Layout, merging: Merger, reports: Reports, segment: Buffer | None
    ) -> None:
        self.shared = segment is not None
        self._layout = layout
        self._merging = merging
        self._reports = reports
        self._segment = segment
        self._replica: PeerReplica | None = None
        # Those that the worker's present message names.
        self._settings: Settings | None = None
        # Whether the worker waits for parameters: the first, or those that belong to its last push.
        self._owing = True

    @property
    def brief(self) -> bool:
        """See `WorkerExchange.brief`."""
        return not self._merging.blocks and self._replica is not None and self._replica.brief

    def open(self) -> None:
        """See `WorkerExchange.open`."""
        self._replica = PeerReplica(self._layout, self._segment)

    def close(self) -> None:
        """See `WorkerExchange.close`."""
        self._replica = self._segment = None

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """See `WorkerExchange.receive_into`.

        Raises
        ------
        RemoteProtocolError
            An update cannot be of that length.
        """
        replica = self._replica or refuse()
        # A version that there is not is refused when the request is handled.
        settings = self._settings = self._reports.find_settings(message.settings_version)
        if settings is not None:
            replica.use(settings.strategy.codec)
        if isinstance(message, Push):
            return replica.receive_into(nbytes)
        if nbytes:
            raise RemoteProtocolError(f"Poll: expected a payload of 0 bytes, got {nbytes}.")
        return None

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`."""
        replica = self._replica or refuse()
        settings = self._settings
        if settings is not None and not replica.read(settings.strategy.pushes):
            message = message._replace(finite=False)
        reply = self._merging.push(member, message, replica.buffer, replica.count())
        self._owing = reply.directive is _WAIT and not self._merging.keeps_own
        nothing = self._owing or reply.status == "superseded"
        return reply, None if nothing else replica.reply(reply.version)

    def arm(self, member: Member, peer: Peer) -> None:
        """See `FastExchange.arm`."""
        replica = self._replica
        if replica is not None and replica.plain and not self._owing:
            self._merging.arm(member, peer, replica.buffer, not replica.shared)

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`."""
        replica = self._replica or refuse()
        proceed = self._merging.poll(member, message, replica.buffer, self._owing)
        if proceed.version is None:
            return proceed, None
        self._owing = False
        return proceed, replica.reply(proceed.version)

    def form(self, member: Member, message: Ready | Awaiting) -> NoReturn:
        """See `WorkerExchange.form`.

        Raises
        ------
        RemoteProtocolError
            Its workers exchange with the server only.
        """
        raise RemoteProtocolError(
            f"{type(message).__name__}: expected workers that exchange with the server only."
        )


def refuse() -> NoReturn:
    """Refuse a worker whose partition another has.

    Raises
    ------
    SessionClosed
        Always.
    """
    raise SessionClosed("The partition belongs to a later attempt by now.")
