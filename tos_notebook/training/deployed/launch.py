"""Start a run whose server is in a Spark task, and follow it from here."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from ...cluster.calls import announced
from ...cluster.jobs import cancel, job_error
from ...cluster.remote.context import RemoteContext
from ...cluster.remote.joining import INSTEAD, Way, packed, run_apart, way_to
from ...cluster.remote.tasks import Sent
from ...common.threads import in_thread
from ...errors import ConfigError
from ...telemetry.bus import EventBus, Sink
from ...telemetry.history import History
from .. import factory
from .follower import Follower
from .letters import DOWN, UP, Asked, written
from .request import Request
from .run import Center, DeployedRun, Parts, Training

if TYPE_CHECKING:
    from ...program.export.base import Program

START = 240.0
"""Seconds for a task to start a run: it may have to import TensorFlow, and to look at the data."""

DRIVER = "tos_notebook.training.deployed.driver"
"""What the task runs."""

SLOTS = 2
"""That a deployed run needs: one for its server, and one for a worker."""


def deploy(
    sc: RemoteContext,
    program: Program,
    request: Request,
    sinks: Sequence[Sink],
    why: str,
    on_end: Callable[[], None] = lambda: None,
) -> DeployedRun:
    """Start a run in a Spark task; return when it has begun there.

    Parameters
    ----------
    sc : RemoteContext
    program : Program
        The run's, in this process: it gets the parameters.
    request : Request
    sinks : sequence of callable
        Take the run's events here.
    why : str
        Why the server is not in this process.
    on_end : callable
        Called when the run has ended.

    Raises
    ------
    ConfigError
        Spark has one slot only.
    TosError
        What has refused the run.
    """
    name, job, follower = _begun(sc, request, why)
    program = as_trained(program, follower)
    center = Center(program.layout, follower)
    run_id = str(follower.facts["run_id"])
    parts = Parts(
        factory.next_number(),
        sc,
        program,
        Training(center, follower),
        EventBus([history := History()], sinks),
        history,
        run_id,
        request.options.get("name"),
        partial(_end, sc, (name, str(follower.facts["group"])), job, follower, on_end),
    )
    run = DeployedRun(parts)
    factory.remember(run)
    follower.begin(run_id, run.lifecycle.publish, run.lifecycle.finish, program.layout.nbytes)
    return run


def _begun(
    sc: RemoteContext, request: Request, why: str
) -> tuple[str, Future[list[bytes]], Follower]:
    """Start a task, and return when its run has begun: the job's group, the job, its follower."""
    content = _packed(request)
    count = factory.asking(sc)("Spark's slots", sc.slots)
    if count < SLOTS:
        raise ConfigError(
            f"Expected a cluster that runs {SLOTS} tasks at once or more, since the run's server "
            f"takes one of them; got {count}. {INSTEAD}"
        )
    sent = sc.broadcast(content)
    # It may be large, and is where tasks find it.
    del content
    name, greeting = f"tos_{secrets.token_hex(8)}", secrets.token_bytes(16)
    way = way_to(sc, name, greeting)
    mail = way.mail(sc.session)
    # Else the server would log each look for a letter that is not there.
    mail.put(UP, written(Asked(0, 0)))
    mail.put(DOWN, b"")
    sys.stderr.write(f"{why}: the server runs in a Spark task, and this notebook follows it.\n")
    job = in_thread(f"tos-deployed-{name}", partial(_task, sc, name, way, sent))
    follower = Follower(mail, job)
    try:
        with announced("a Spark task to start the run's server"):
            follower.begun(START)
    except BaseException:
        cancel(sc, name)
        follower.forget()
        raise
    return name, job, follower


def as_trained(program: Program, follower: Follower) -> Program:
    """Return the program by whose layout the task has the parameters, also after a swap."""
    return program.for_gradients() if follower.facts["gradients"] else program.for_steps()


def _packed(request: Request) -> bytes:
    try:
        return packed(request)
    except Exception as error:
        what = str(error).partition("\n")[0]
        raise ConfigError(
            "data, options: expected what can be copied into a Spark task, which has the run's "
            f"server; Python says: {what}. Give a function of datasets for a tf.data.Dataset, and "
            f"names or plain values for objects. {INSTEAD}"
        ) from None


def _task(sc: RemoteContext, name: str, way: Way, request: Sent) -> list[bytes]:
    """Run the task to its end; return the last parameters, in parts."""
    sc.setJobGroup(name, "the server of a run")
    try:
        return run_apart(sc, DRIVER, way, request)
    except Exception as error:
        raise job_error(error) from None


def _end(
    sc: RemoteContext,
    groups: tuple[str, str],
    job: Future[list[bytes]],
    follower: Follower,
    on_end: Callable[[], None],
) -> None:
    try:
        if not job.done() or job.exception() is not None:
            cancel(sc, groups[0])
            # The jobs of its workers, which are another client's of the same session.
            sc.session.interruptTag(groups[1])
        follower.forget()
    finally:
        on_end()
