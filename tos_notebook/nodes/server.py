"""The driver's server for the nodes of one cluster, and for the tasks that feed them.

What may be asked, in JSON::

    {"register": meta}                     a node, or anything else, takes its place
    {"query": true}, {"info": true}        whether all have; what they have said of themselves
    {"await": seconds, "count": n}         the same, once so many have
    {"await_end": number}                  whether that node has ended, within some seconds
    {"beat": seconds, ...}                 a node's news; the answer has its orders
    {"left": outcome, ...}                 how a node has ended
    {"step": number, ...}                  whether another node has rows for it; see `Steps`
    {"where": executor, "host": host, "feed": name, "begun": bool, "stream": bool,
     "partition": n, "results": bool}      which node a task is to feed
    {"fed": true}                          that task has fed its rows
    {"feed_failed": name, "text": ...}     why it could not
    {"waits": text}                        what that task waits for, and long
    {"finish": true}                       the end of the feed is asked for
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RemoteProtocolError, TosError
from ..transport.auth import Secret, new_secret
from ..transport.base import LOOPBACK, Endpoint
from ..wire.messages import Refused
from ..wire.refusals import error_of
from .feeds import Feed
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


@dataclass
class _Task:
    """A task of Spark's that feeds a node."""

    feed: Feed
    partition: int
    stream: bool
    node: Node | None = None


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
    over : callable
        Whether nodes are to end without `close`: Spark may end, and its JVM stay.

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
        self,
        roster: Roster,
        endpoint: Endpoint = LOOPBACK,
        contact: str | None = None,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.roster, self._over = roster, over
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
        task: _Task | None = None
        try:
            while True:
                # Rows go to nodes: a peer that sends some here is refused before they take memory.
                message, _ = talk.receive(0)
                if "register" in message:
                    node = self._register(talk, message) or node
                elif "where" in message:
                    self._release(task)
                    task = self._task(message)
                    talk.send(self._assign(message, task))
                elif "fed" in message or "feed_failed" in message:
                    self._note(message, task)
                    talk.send({})
                elif "waits" in message and task is not None:
                    self.roster.note(str(message["waits"])[:LONGEST_LINE])
                    talk.send({})
                else:
                    talk.send(self._answer(message, node))
        finally:
            self._release(task)
            if node is not None:
                self.roster.end(node, LOST, "Its process, or its host, is gone.")

    def _register(self, talk: Talk, message: Message) -> Node | None:
        try:
            meta = _checked(dict(message["register"]))
            if self.roster.of_other_attempt(meta):
                talk.send({"there": True})
                return None
            node = self.roster.add(meta)
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
        if "await_end" in message:
            other = roster.nodes.get(int(message["await_end"]))
            ended: Callable[[], bool] = lambda: roster.stopping or other is None or other.ended  # noqa: E731
            return {"ended": roster.wait_for(ended, LONGEST_TURN)}
        if "info" in message:
            return {"cluster": roster.cluster}
        if "step" in message:
            return self._steps.answer(message)
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
            return roster.stopping or node.ended or self._over()

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

    def _task(self, message: Message) -> _Task | None:
        begun = bool(message.get("begun"))
        with self.roster.changed:
            feed = self.roster.feeds.find(str(message.get("feed", "")), begun)
        if feed is None:
            return None
        return _Task(feed, int(message.get("partition", 0)), bool(message.get("stream")))

    def _assign(self, message: Message, task: _Task | None) -> Mapping[str, Any]:
        roster, failure = self.roster, self.roster.failure
        if failure is not None:
            return {"failed": failure.message, "frames": failure.frames, "name": failure.name}
        if task is None:
            return {"ended": True}
        error = task.feed.error or (roster.stream_error if task.stream else None)
        if error is not None:
            return {"error": type(error).__name__, "text": str(error)}
        # Results are Spark's, which drops those of an attempt that has failed.
        feed = None if message.get("results") else task.feed
        where = str(message["where"]), str(message.get("host", ""))
        task.node = node = roster.assign(*where, feed, task.partition)
        if node is None:
            return {"ended": True}
        return {
            "inbox": node.meta["inbox"],
            "fingerprint": node.meta["fingerprint"],
            "name": node.name,
            "feed": task.feed.number,
            "oldest": roster.feeds.oldest,
        }

    def _note(self, message: Message, task: _Task | None) -> None:
        if task is None:
            return
        if "fed" in message:
            self.roster.end_task(task.feed, task.partition)
            return
        refused = Refused(str(message["feed_failed"]), str(message.get("text", "")))
        self.roster.fail_feed(task.feed, error_of(refused), task.stream)

    def _release(self, task: _Task | None) -> None:
        if task is not None and task.node is not None:
            self.roster.release(task.node)
            task.node = None


def _checked(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what a node says of itself, as others rely on it; who is no node may say anything."""
    for name, kind in _META.items() if "executor_id" in meta else ():
        if type(meta.get(name)) is not kind:
            raise RemoteProtocolError(
                f"Expected a node that says its {name} ({kind.__name__}), got {meta.get(name)!r}."
            )
    return meta
