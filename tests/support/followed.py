"""A run that is followed here, whose task a thread or the test plays."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from tests.support.mail import Views
from tos_notebook.cluster.remote.mailbox import Mailbox
from tos_notebook.program.export.base import Program
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.telemetry.history import History
from tos_notebook.training.deployed.follower import Follower
from tos_notebook.training.deployed.launch import as_trained
from tos_notebook.training.deployed.run import Center, DeployedRun, Parts, Training


def followed(program: Program, **facts: Any) -> DeployedRun:
    """Return a run of a program in a task that has told some facts.

    Parameters
    ----------
    program : Program
        As `tos_notebook.capture` returns it.
    **facts
        See `tos_notebook.training.deployed.driver.facts_of`.
    """
    job: Future[list[bytes]] = Future()
    follower = Follower(Mailbox(Views(), "tos_1"), job)
    follower.facts = {
        **{"gradients": False, "uri": None, "slots": 2, "past": 0, "state": "running"},
        **facts,
    }
    program = as_trained(program, follower)
    history = History()
    training = Training(Center(program.layout, follower), follower)
    place: Any = SimpleNamespace(master="sc://h:15002")
    bus = EventBus([history])
    return DeployedRun(
        Parts(1, place, program, training, bus, history, "r", None, on_end=lambda: None)
    )
