"""The driver's server for the nodes of one cluster, and for the tasks that feed them.

What may be asked, in JSON::

    {"register": meta}                     a node, or anything else, takes its place
    {"query": true}, {"info": true}        whether all have; what they have said of themselves
    {"await": seconds, "count": n}         the same, once so many have
    {"beat": seconds, ...}                 a node's news; the answer has its orders
    {"left": outcome, ...}                 how a node has ended
    {"step": number, ...}                  whether another node has rows for it; see `Steps`
    {"where": executor, "host": host}      which node a task is to feed
    {"feed_failed": name, "text": ...}     why a task could not feed its rows
    {"finish": true}                       the end of the feed is asked for
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import RemoteProtocolError, TosError
from ..transport.auth import Secret, new_secret
from ..transport.base import LOOPBACK, Endpoint
from ..wire.messages import Refused
from ..wire.refusals import error_of
from .plan import ServerAddress
from .roster import LONGEST_LINE, LOST, Node, Roster
from .steps import Steps
from .talk import Message, Talk, TalkServer

LONGEST_TURN = 30.0
"""Seconds that an answer may wait for news."""

_META = {
    **dict.fromkeys(("executor_id", "task_index", "port", "pid", "tb_pid", "tb_port"), int),
    **dict.fromkeys(("host", "job_name", "executor", "fingerprint"), str),
    "inbox": list,
}
"""What a node has to say of itself."""


class NodeServer:
    """Serves the nodes of one cluster.

    Parameters
    ----------
    roster : Roster
        What is known of the nodes.
    endpoint : Endpoint
        Where to listen.
    contact : str, optional
        The host by which executors reach it; the endpoint's by default.

    Attributes
    ----------
    address : ServerAddress
        For executors.

    Raises
    ------
    TransportError
        It cannot listen there.
    """

    def __init__(
        self, roster: Roster, endpoint: Endpoint = LOOPBACK, contact: str | None = None
    ) -> None:
        self.roster = roster
        self._steps = Steps(roster)
        secret: Secret = new_secret()
        self._server = TalkServer(secret, self._serve, endpoint)
        host, port = self._server.address
        self.address = ServerAddress.of(contact or host, port, secret, self._server.fingerprint)

    def close(self) -> None:
        """End all nodes and connections; may be repeated."""
        self.roster.stop()
        self._server.close()

    def _serve(self, talk: Talk) -> None:
        node: Node | None = None
        fed: list[Node] = []
        feeds = False
        try:
            while True:
                # Rows go to nodes: whoever sends some here is refused before they take memory.
                message, _ = talk.receive(0)
                if "register" in message:
                    node = self._register(talk, message) or node
                elif "where" in message:
                    feeds = True
                    self._release(fed)
                    talk.send(self._assign(message, fed))
                else:
                    talk.send(self._answer(message, node))
        finally:
            self._release(fed)
            if feeds:
                self.roster.end_task()
            if node is not None:
                self.roster.end(node, LOST, "Its process, or its host, is gone.")

    def _register(self, talk: Talk, message: Message) -> Node | None:
        try:
            node = self.roster.add(_checked(dict(message["register"])))
        except (TosError, TypeError, ValueError) as error:
            talk.send({"refused": str(error)})
            return None
        talk.send({"registered": "OK"})
        return node

    def _answer(self, message: Message, node: Node | None) -> Message:
        roster = self.roster
        if "beat" in message and node is not None:
            return self._beat(message, node)
        if "left" in message and node is not None:
            self._take_news(message, node)
            roster.end(
                node,
                str(message["left"]),
                str(message.get("message", "")),
                list(map(str, message.get("frames", ()))),
            )
            return {}
        if "query" in message:
            return {"done": roster.whole}
        if "await" in message:
            seconds = min(float(message["await"]), LONGEST_TURN)
            count = int(message.get("count", roster.required))
            done = roster.wait_for(lambda: roster.stopping or roster.registered >= count, seconds)
            return {"done": done, "whole": roster.whole, "cluster": roster.cluster}
        if "info" in message:
            return {"cluster": roster.cluster}
        if "step" in message:
            return self._steps.answer(message)
        if "feed_failed" in message:
            refused = Refused(str(message["feed_failed"]), str(message.get("text", "")))
            roster.fail_feed(error_of(refused))
            return {}
        if "finish" in message:
            roster.request_stop()
            return {"finish": "OK"}
        raise RemoteProtocolError(f"Expected something that can be asked, got {sorted(message)}.")

    def _beat(self, message: Message, node: Node) -> Message:
        roster, running = self.roster, bool(message.get("running"))
        self._take_news(message, node)
        if running:
            roster.run(node)
        closed = bool(message.get("closed"))

        def stop() -> bool:
            # A node that has ended is one of an earlier start.
            return roster.stopping or node.ended

        def news() -> bool:
            return (
                stop()
                or (roster.whole and not running)
                or (roster.feed_closed and running and not closed)
            )

        roster.wait_for(news, min(float(message["beat"]), LONGEST_TURN))
        return {
            "stop": stop(),
            "close_feed": roster.feed_closed,
            "cluster": roster.cluster if roster.whole and not running else None,
        }

    def _take_news(self, message: Message, node: Node) -> None:
        lines = [str(line)[:LONGEST_LINE] for line in message.get("lines", ())]
        rows, feeding = int(message.get("rows", 0)), bool(message.get("feeding", True))
        node.gpus = str(message.get("gpus", node.gpus))
        if "board" in message:
            # It has no address any more.
            node.meta["tb_port"] = 0
            self.roster.note(f"TensorBoard {str(message['board'])[:LONGEST_LINE]}")
        self.roster.report(node, lines, rows, feeding)

    def _assign(self, message: Message, fed: list[Node]) -> Mapping[str, Any]:
        failure = self.roster.failure
        if failure is not None:
            return {"failed": failure.message, "frames": failure.frames, "name": failure.name}
        if self.roster.feed_error is not None and not message.get("results"):
            return {"ended": True}
        node = self.roster.assign(str(message["where"]), str(message.get("host", "")))
        if node is None:
            return {"ended": True}
        fed.append(node)
        return {
            "inbox": node.meta["inbox"],
            "fingerprint": node.meta["fingerprint"],
            "name": node.name,
        }

    def _release(self, fed: list[Node]) -> None:
        while fed:
            self.roster.release(fed.pop())


def _checked(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what a node says of itself, as others rely on it; who is no node may say anything."""
    for name, kind in _META.items() if "executor_id" in meta else ():
        if type(meta.get(name)) is not kind:
            raise RemoteProtocolError(
                f"Expected a node that says its {name} ({kind.__name__}), got {meta.get(name)!r}."
            )
    return meta
