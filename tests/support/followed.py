"""A run that is followed here, whose task a thread or the test plays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from tests.support.mail import Views
from tos_notebook.cluster.remote.mailbox import Mailbox
from tos_notebook.program.export.base import Program
from tos_notebook.steering.status import RunStatus
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.telemetry.history import History
from tos_notebook.training.deployed.follower import Follower
from tos_notebook.training.deployed.launch import as_trained
from tos_notebook.training.deployed.run import Center, DeployedRun, Parts, Training

STATUS = RunStatus("r", "running", 1, 3, 7, 70, 3.5, 0.25, 0.0, 2.0)


def followed(
    program: Program, on_end: Callable[[], None] = lambda: None, **facts: Any
) -> DeployedRun:
    """Return a run of a program in a task that has told some facts.

    Parameters
    ----------
    program : Program
        As `tos_notebook.capture` returns it.
    on_end : callable
        Called when the run has ended.
    **facts
        See `tos_notebook.training.deployed.driver.facts_of`.
    """
    job: Future[list[bytes]] = Future()
    follower = Follower(Mailbox(Views(), "tos_1"), job)
    follower.facts = {
        "gradients": False,
        "uri": None,
        "slots": 2,
        "past": 0,
        "state": "running",
        "status": STATUS,
        **facts,
    }
    program = as_trained(program, follower)
    history = History()
    training = Training(Center(program.layout, follower), follower)
    place: Any = SimpleNamespace(master="sc://h:15002")
    bus = EventBus([history])
    return DeployedRun(Parts(1, place, program, training, bus, history, "r", None, on_end))
