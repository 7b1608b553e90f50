"""The server's end of connections, over any channel: one thread for each, one more for all."""

from __future__ import annotations

import logging
import resource
import threading
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ..common.threads import join_all
from ..errors import ConnectionClosed, RemoteProtocolError, TosError, TransportError
from ..wire.bodies import decode_body
from ..wire.frames import Header, encode_head
from ..wire.messages import Goodbye, Message, Request
from ..wire.refusals import refusal_of
from ..wire.whole import AT_ONCE
from .base import Channel, FastHandler, Handler, HandlerFactory, Watched, byte_view
from .reactor import Reactor
from .turn import Turn

log = logging.getLogger(__name__)

STEADY = 8
"""How many of them in a row, after which no other request is expected soon."""

_Incoming = Request | Goodbye


def serve(channel: Channel, handler: Handler, reactor: Reactor, turn: Turn) -> None:
    """Answer requests until the peer leaves, then tell the handler, whatever happened.

    The channel stays open. The reactor has it while nothing comes but what is answered at once.
    """
    error: Exception | None = None
    steady = 0
    watched = channel if isinstance(channel, Watched) else None
    fast = handler if isinstance(handler, FastHandler) else None
    try:
        while not isinstance(message := _serve_one(channel, handler, turn), Goodbye):
            steady = steady + 1 if isinstance(message, AT_ONCE) else 0
            if watched is not None and steady >= STEADY and handler.brief:
                reactor.attend(watched, partial(_serve_brief, watched, handler, fast))
                steady = 0
    except TosError as problem:
        error = problem
    except Exception as problem:
        log.exception("The connection to %s failed", channel.peer)
        error = problem
    finally:
        handler.closed(error)


def _serve_brief(channel: Watched, handler: Handler, fast: FastHandler | None) -> bool:
    """Serve what has come as a whole; return whether the next may be served so, too."""
    whole = channel.look()
    if whole is None:
        return False
    sequence, message, payload = whole
    try:
        target = _target(handler, message, payload.nbytes)
    except Exception as error:
        _refuse(channel, sequence, error)
        raise
    if target is not None:
        target[:] = payload
    _answer(channel, handler, sequence, message, target)
    # A peer that reads slowly holds up its own thread, and no other's.
    if channel.owes or not handler.brief:
        return False
    if fast is not None and (peer := channel.fast) is not None:
        fast.arm(peer)
    return True


def _serve_one(channel: Channel, handler: Handler, turn: Turn) -> _Incoming:
    header, message, target = _receive(channel, handler, turn)
    if not isinstance(message, Goodbye):
        _answer(channel, handler, header.sequence, message, target)
    return message


def _answer(
    channel: Channel, handler: Handler, sequence: int, message: Request, target: memoryview | None
) -> None:
    try:
        answer, payload = handler.handle(message, target)
        outgoing = byte_view(payload)
        nbytes = 0 if outgoing is None else outgoing.nbytes
        head = encode_head(answer, sequence, nbytes)
    except Exception as error:
        _refuse(channel, sequence, error)
    else:
        channel.send(head, outgoing)


def _receive(
    channel: Channel, handler: Handler, turn: Turn
) -> tuple[Header, _Incoming, memoryview | None]:
    """Receive a whole request; one that cannot be received is refused and ends it all."""
    header = Header(0, 0, 0, 0)
    try:
        header, body = channel.receive_head()
        message = _expect_request(decode_body(header.kind, body))
        target = _target(handler, message, header.payload)
    except TransportError:
        raise
    except Exception as error:
        _refuse(channel, header.sequence, error)
        channel.discard(header.payload)
        raise
    if target is not None:
        with turn.taken(target.nbytes):
            channel.receive_payload(target)
    return header, message, target


def _expect_request(message: Message) -> _Incoming:
    if not isinstance(message, _Incoming):
        raise RemoteProtocolError(f"Expected a request, got {type(message).__name__}.")
    return message


def _target(handler: Handler, message: _Incoming, nbytes: int) -> memoryview | None:
    view = None
    if not isinstance(message, Goodbye):
        view = byte_view(handler.receive_into(message, nbytes), writable=True)
    expected = 0 if view is None else view.nbytes
    if expected != nbytes:
        raise RemoteProtocolError(
            f"{type(message).__name__}: expected {expected} bytes of payload, got {nbytes}."
        )
    return view


def _refuse(channel: Channel, sequence: int, error: Exception) -> None:
    if not isinstance(error, TosError):
        log.error("Serving %s failed", channel.peer, exc_info=error)
    channel.send(encode_head(refusal_of(error), sequence, 0), None)


def most_connections() -> int:
    """Return how many connections a server takes: half of the files that its process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(4096, files // 2) if files != resource.RLIM_INFINITY else 4096


class _Served(NamedTuple):
    channel: Channel
    handler: Handler


class RequestServer:
    """Answers the requests that come over channels, each by its own handler.

    Of channels there are only so many, see `most_connections`: when one more comes, the oldest of
    those goes that no worker needs.
    """

    def __init__(self, factory: HandlerFactory) -> None:
        self._factory = factory
        self._most = most_connections()
        self._reactor = Reactor()
        self._turn = Turn()
        self._lock = threading.Lock()
        # Those that were told to go are not counted; their threads are waited for.
        self._threads: dict[threading.Thread, _Served] = {}
        self._going: set[threading.Thread] = set()
        self._closed = False

    def spawn(self, channel: Channel) -> None:
        """Serve a channel, which is owned from now on, in a new thread.

        Raises
        ------
        ConnectionClosed
            The listener was closed; so is the channel.
        TransportError
            There are too many connections, or the system has no thread left; the channel is closed.
        """
        name = f"tos-server-{channel.peer}"
        served = _Served(channel, self._factory(channel.peer))
        thread = threading.Thread(target=self._run, args=served, name=name, daemon=True)
        try:
            with self._lock:
                if self._closed:
                    raise ConnectionClosed("The listener was closed. Start a new session.")
                self._make_room(channel.peer)
                # Started under the lock, and forgotten only when dead, not by itself: `close`
                # finds every thread that has yet to end, and can join it.
                thread.start()
                self._threads[thread] = served
        except RuntimeError as error:
            channel.close()
            raise TransportError(f"No thread for {channel.peer}: {error}.") from error
        except TransportError as error:
            # To a connection on which nothing has been sent yet, this never waits.
            with suppress(TransportError):
                channel.send(encode_head(refusal_of(error), 0, 0), None)
            channel.close()
            raise

    def _make_room(self, peer: str) -> None:
        self._threads = {t: s for t, s in self._threads.items() if t.is_alive()}
        self._going &= self._threads.keys()
        if len(self._threads) - len(self._going) < self._most:
            return
        for thread, served in self._threads.items():
            if thread not in self._going and not served.handler.needed:
                log.debug("%s makes room for %s", served.channel.peer, peer)
                self._going.add(thread)
                served.channel.shutdown()
                return
        log.warning("%s was not let in: %d workers train.", peer, self._most)
        raise TransportError(
            f"Expected at most {self._most} workers at a time, got one more. The driver takes half "
            "as many as it may open files. Let it open more before Python starts (ulimit -n), or "
            "train fewer partitions at a time."
        )

    def _run(self, channel: Channel, handler: Handler) -> None:
        try:
            serve(channel, handler, self._reactor, self._turn)
        except Exception:
            log.exception("The handler of %s failed", channel.peer)
        finally:
            channel.shutdown()
            channel.close()

    def close(self, timeout: float) -> None:
        """Refuse new connections, abort those there are and wait for their threads.

        Raises
        ------
        WaitTimeout
            Threads that are still alive after `timeout` seconds, by name.
        """
        with self._lock:
            self._closed = True
            running = self._threads
        for served in running.values():
            served.channel.shutdown()
        join_all([*running, *self._reactor.close()], timeout)
