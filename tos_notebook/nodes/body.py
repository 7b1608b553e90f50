"""The process of a node: it runs the user's function, takes rows, and tells its keeper how it is.

It talks to its keeper in lines of JSON over two pipes::

    node -> keeper   {"inbox": [host, port], "fingerprint": hex}   where it takes rows
    keeper -> node   {"start": cluster, "environment": {...}}      all nodes are there
                     {"close_feed": true}                          no more rows will come
    node -> keeper   {"rows": n, "feeding": bool}                  now and then
                     {"outcome": "done" | "failed", "message": ..., "frames": [...]}
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..common.tracebacks import PACKAGE, describe
from ..errors import TosError
from ..transport.base import Endpoint
from ..transport.sockets import is_loopback
from .context import LEADERS, NodeContext
from .hub import Hub
from .inbox import Inbox
from .peers import Peers
from .plan import NodePlan, spec_of
from .ports import SHARED, shield
from .roster import DONE, FAILED
from .talk import TalkServer

PROGRESS = 0.5
"""Seconds between two words on the rows that were taken."""

LINGER = 5.0
"""Seconds in which tasks of Spark may fetch the results that a node leaves behind."""

Main = Callable[[Any, NodeContext], object]


@dataclass
class Body:
    """What runs in a node's process.

    Parameters
    ----------
    plan : NodePlan
    number : int
        The node's.
    main : callable
        The user's function of (args, context).
    args : object
        For it; a list becomes ``sys.argv``, too.
    host : str
        This host's address, by which the driver is reached.
    port : socket
        Keeps the port of the node's TensorFlow server.
    alone : bool
        Whether the process is the node's own, and ends with its keeper.
    """

    plan: NodePlan
    number: int
    main: Main
    args: Any
    host: str
    port: socket.socket
    alone: bool = True

    def run(self, orders: BinaryIO, news: BinaryIO) -> None:
        """Run the node's function once the keeper says so, and tell how it has ended.

        Parameters
        ----------
        orders, news : binary file
            From the keeper, and to it.
        """
        hub, lock = Hub(self.plan.queues), threading.Lock()

        def tell(message: Mapping[str, Any]) -> None:
            # The keeper may be gone, and ends this process then.
            with suppress(OSError), lock:
                news.write(json.dumps(message).encode() + b"\n")
                news.flush()

        inbox, outcome = Inbox(hub), dict[str, Any]()
        server, shields = self._server(inbox), self._shields()
        try:
            tell({"inbox": server.address, "fingerprint": (server.fingerprint or b"").hex()})
            start = _read(orders)
            if "start" not in start:
                return
            ended = threading.Event()
            for target, given in ((self._listen, (orders, hub)), (_progress, (hub, tell, ended))):
                threading.Thread(target=target, args=given, daemon=True).start()
            outcome = self._call(hub, start)
            ended.set()
            hub.end(outcome.get("message", ""))
            tell({"rows": hub.rows_taken, "feeding": False, **outcome})
        finally:
            # An error is to be known at once: no task fetches results then.
            owes = inbox.owes_results and outcome.get("outcome") == DONE
            with suppress(TosError):
                server.close(linger=LINGER if owes else 0.0)
            for sock in shields:
                sock.close()

    def _shields(self) -> list[socket.socket]:
        # If all nodes are on this host, no other host is to reach TensorFlow's server.
        alone = self.plan.release_port and is_loopback(self.host)
        return shield(self.port.getsockname()[1]) if alone else []

    def _server(self, inbox: Inbox) -> TalkServer:
        first, last = self.plan.ports
        server = self.plan.server
        endpoint = Endpoint(self.host, first, last, tls=server.fingerprint is not None)
        return TalkServer(server.secret, inbox.serve, endpoint)

    def _call(self, hub: Hub, start: Mapping[str, Any]) -> dict[str, Any]:
        job, index = self.plan.task_of(self.number)
        spec = spec_of(start["start"])
        os.environ.update(start.get("environment", {}))
        os.environ.setdefault(SHARED, "1")
        if any(leader in spec for leader in LEADERS):
            os.environ["TF_CONFIG"] = json.dumps(
                {"cluster": spec, "task": {"type": job, "index": index}, "environment": "cloud"}
            )
        port = None if self.plan.release_port else self.port
        context = NodeContext(
            *(self.number, job, index, spec),
            *(self.plan.default_fs, self.plan.working_dir, hub, port),
        )
        context.peers = peers = Peers(self.plan.server, self.number, self.plan.start)
        if isinstance(self.args, list):
            sys.argv = list(self.args)
        try:
            self.main(self.args, context)
        except SystemExit as error:
            if error.code not in (None, 0):
                return _failure(error)
        except BaseException as error:
            return _failure(error)
        finally:
            peers.close()
        return {"outcome": DONE}

    def _listen(self, orders: BinaryIO, hub: Hub) -> None:
        """Obey the keeper; end the process when the keeper is gone."""
        while order := _read(orders):
            if "close_feed" in order:
                hub.close_feed()
        if self.alone:
            os.kill(os.getpid(), signal.SIGKILL)


def _failure(error: BaseException) -> dict[str, Any]:
    # How the function is called is nothing that the user could change.
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(PACKAGE):
        inner = inner.tb_next
    message, frames = describe(error.with_traceback(inner or error.__traceback__))
    return {"outcome": FAILED, "message": message, "frames": frames}


def _read(orders: BinaryIO) -> dict[str, Any]:
    line = orders.readline()
    return dict(json.loads(line)) if line else {}


def _progress(hub: Hub, tell: Callable[[Mapping[str, Any]], None], ended: threading.Event) -> None:
    before = None
    while not ended.wait(PROGRESS):
        now = {"rows": hub.rows_taken, "feeding": hub.open}
        if now != before:
            tell(now)
        before = now


def flush(streams: Sequence[Any] = ()) -> None:
    """Write out what was printed, as far as someone still listens."""
    for stream in streams or (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
