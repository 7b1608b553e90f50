"""Keeps a node: starts its process, speaks with the driver for it, and ends it.

The keeper is the Spark task that has started the node, or a process that outlives that task. It
runs none of the user's code: it hears the driver, and reports, whatever that code does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from ..common.threads import in_thread
from ..errors import ClusterUnreachable, TransportError, WorkerError
from ..transport.sockets import Timeouts
from .board import Board, shows_board
from .body import Body, Main
from .gpus import visible
from .kept import Kept, KeptHere
from .plan import NodePlan
from .ports import hold_port
from .roster import FAILED, LOST
from .spawn import Process, may_fork, start
from .talk import Talk, open_talk

BEAT = 0.5
"""Seconds after which the driver hears of a node at the latest."""

GIVE_UP = 30.0
"""Seconds for the driver to take note of a node's end."""

Claim = Callable[[str, int, Sequence[Mapping[str, Any]]], Mapping[str, str]]
"""Takes the node's job and index, and what all nodes have said of themselves, nothing before that
is known. Returns the environment that lets the node see its GPUs, and raises if there are too few.
"""


def no_claim(job: str, index: int, cluster: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Leave the GPUs as they are."""
    return {}


@dataclass
class Keeper:
    """Keeps one node.

    Parameters
    ----------
    plan, number, main, args
        See `Body`.
    claim : callable
        See `Claim`.
    fork : bool
        Whether its process may be a fork of this one.
    parent : int
        The process that has started the calling one: the same for all tasks of an executor.
    task : (int, int), optional
        Spark's numbers of the stage and of the task attempt that has started the node.
    orphaned : callable
        Whether the executor has ended without this process.
    """

    plan: NodePlan
    number: int
    main: Main
    args: Any
    claim: Claim = no_claim
    fork: bool = field(default_factory=may_fork)
    parent: int = field(default_factory=os.getppid)
    task: tuple[int, int] | None = field(default_factory=lambda: spark_task())
    orphaned: Callable[[], bool] = lambda: False

    def run(self, registered: Callable[[], object] = lambda: None) -> None:
        """Start the node, and stay until it has ended.

        Parameters
        ----------
        registered : callable
            Called when the driver knows the node.

        Raises
        ------
        WorkerError
            The node's function has failed, or its process died.
        ClusterUnreachable
            The driver does not answer, or has ended the cluster before it was whole.
        """
        environment = dict(self.claim(*self._task, ()))
        talk = self._connect()
        with hold_port(self.plan.ports) as port:
            number = port.getsockname()[1]
            body = Body(self.plan, self.number, self.main, self.args, talk.host, port)
            node = Kept(start(body, self.fork), self.plan.echo)
        try:
            with self._board(talk.host) as board:
                self._keep(talk, node, (number, board), environment, registered)
        finally:
            node.kill()
            talk.close()

    def run_here(self) -> None:
        """Run the node in this process and thread; raises what `run` does."""
        environment = dict(self.claim(*self._task, ()))
        talk = self._connect()
        (orders, to_orders), (from_news, news), (from_output, output) = (os.pipe() for _ in "123")
        os.close(output)
        with hold_port(self.plan.ports) as port:
            number = port.getsockname()[1]
            body = Body(self.plan, self.number, self.main, self.args, talk.host, port, alone=False)
            node = KeptHere(Process(os.getpid(), to_orders, from_news, from_output))
            kept = in_thread(
                "tos-node-keeper",
                lambda: self._keep(talk, node, (number, None), environment, lambda: None),
            )
            # Whatever ends it: the node must not wait for its orders.
            kept.add_done_callback(lambda _: node.close_orders())
            given, told = os.fdopen(orders, "rb"), os.fdopen(news, "wb")
            try:
                body.run(given, told)
            finally:
                told.close()
                node.over.set()
                error = kept.exception(GIVE_UP)
                node.kill()
                talk.close()
                # Its reader holds it until the other end is closed.
                given.close()
        if error is not None:
            raise error

    @property
    def _task(self) -> tuple[str, int]:
        return self.plan.task_of(self.number)

    def _connect(self) -> Talk:
        server = self.plan.server
        try:
            return open_talk(server, server.secret, server.fingerprint, Timeouts())
        except TransportError as error:
            raise ClusterUnreachable(
                f"Node {self.number} cannot reach the driver at {server[0]}:{server[1]}: {error}"
            ) from error

    def _keep(
        self,
        talk: Talk,
        node: Kept,
        ports: tuple[int, Board | None],
        environment: dict[str, str],
        registered: Callable[[], object],
    ) -> None:
        meta = node.wait_for_inbox() | self._meta(talk, *ports, node.process.pid)
        board = ports[1]
        of_board: Callable[[], dict[str, str]] = board.news if board else dict
        answer, _ = talk.ask({"register": meta})
        if "refused" in answer:
            raise ClusterUnreachable(answer["refused"])
        registered()
        if answer.get("there"):
            # Spark has started the task twice, as it took long. Whichever ends first, ends both.
            node.kill()
            while not self.orphaned() and not talk.ask({"await_end": self.number})[0]["ended"]:
                pass
            return
        started = closed = False
        while not node.ended:
            if self.orphaned():
                raise WorkerError("The executor of the node has ended.")
            beat = {"beat": BEAT, "running": started, "closed": closed}
            answer, _ = talk.ask({**beat, **node.news(), **of_board()})
            if answer.get("stop"):
                node.stop()
                break
            if answer.get("cluster") and not started:
                environment.update(self.claim(*self._task, answer["cluster"]))
                node.order({"start": answer["cluster"], "environment": environment})
                started = True
                talk.ask(
                    {"beat": 0.0, "running": True, "gpus": visible(environment), **node.news()}
                )
            if answer.get("close_feed") and started and not closed:
                node.order({"close_feed": True})
                closed = True
        outcome = node.outcome()
        talk.ask({"left": outcome["outcome"], **node.news(), **outcome})
        if outcome["outcome"] in (FAILED, LOST):
            raise WorkerError(outcome["message"], frames=outcome["frames"])

    def _board(self, host: str) -> Board | nullcontext[None]:
        if not shows_board(self.plan, *self._task):
            return nullcontext()
        return Board(self.plan.log_dir or f"tensorboard_{self.number}", host)

    def _meta(self, talk: Talk, port: int, board: Board | None, pid: int) -> dict[str, Any]:
        job, index = self._task
        return {
            "executor_id": self.number,
            "host": talk.host,
            "job_name": job,
            "task_index": index,
            "port": port,
            "executor": executor_token(talk.host, self.parent),
            "pid": pid,
            "spark_task": self.task,
            "start": self.plan.start,
            "tb_pid": board.pid if board else 0,
            "tb_port": board.port if board else 0,
        }


def spark_task() -> tuple[int, int] | None:
    """Return Spark's numbers of the stage and the attempt of this task; None outside of tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else (int(context.stageId()), int(context.taskAttemptId()))


def executor_token(host: str, parent: int) -> str:
    """Return what all Python workers of one executor share: their host and their parent."""
    return f"{host}/{parent}"
