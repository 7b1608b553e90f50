"""At the end of a followed run no thread waits for the task, and nothing of the run is left."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import classifier
from tests.support.followed import STATUS, followed
from tests.support.mail import Views
from tests.unit.telemetry.samples import joined, milestone, started
from tests.unit.training.test_deployed import Trained
from tos_notebook.cluster.remote.mailbox import Mailbox
from tos_notebook.common.threads import in_thread, join_all
from tos_notebook.errors import InvalidTransition, RemoteProtocolError
from tos_notebook.training.deployed.driver import Outbox, Served
from tos_notebook.training.deployed.letters import DOWN, UP, Asked, Call, Told, read, written

ENDED = {"ended": True, "state": "finished", "past": 0, "uri": None, "status": STATUS}


def asked(mail: Mailbox) -> Asked:
    """Return the notebook's letter."""
    content = mail.get(UP)
    return Asked(0, 0) if content is None else read(content, Asked)  # type: ignore[no-any-return]


def begun(run: Any) -> Any:
    """Let a run be followed; return what follows it."""
    follower = run.parts.training.follower
    follower.begin("r", run.lifecycle.publish, run.lifecycle.finish)
    return follower


def test_one_who_holds_the_model_when_the_run_ends_gets_its_last_parameters() -> None:
    before = set(threading.enumerate())
    run = followed(tos.capture(classifier()))
    last = np.zeros(run.program.layout.nbytes, np.uint8)
    follower = begun(run)

    def held() -> Any:
        with run.lifecycle.model.present() as program:
            return program.read()

    found: Future[Any] = in_thread("tos-held", held)
    while not asked(follower._mail).calls:
        follower._wake.set()
    follower._mail.put(DOWN, written(Told(1, 0, facts=ENDED)))
    follower._job.set_result([last.tobytes()])
    follower._wake.set()
    run.wait(10)
    np.testing.assert_array_equal(found.result(10), last)
    np.testing.assert_array_equal(run.parts.training.parameters.read()[0], last)
    assert run.state == "finished"
    join_all(set(threading.enumerate()) - before, 10)


def test_a_run_without_last_parameters_refuses_to_return_some() -> None:
    run = followed(tos.capture(classifier()), state="failed")
    run.lifecycle.finish([], InvalidTransition("failed", "train", "the task was lost."))
    with pytest.raises(InvalidTransition, match="has ended"):
        run.parameters()


def test_all_else_ends_although_the_parameters_have_another_length() -> None:
    ended: list[str] = []
    run = followed(tos.capture(classifier()), on_end=lambda: ended.append("r"))
    run.lifecycle.finish([b"abc"], None)
    with pytest.raises(RemoteProtocolError, match="got 3"):
        run.wait(1)
    assert ended == ["r"]
    assert not run.parts.bus._thread.is_alive()


def test_a_task_answers_what_was_asked_before_it_ends() -> None:
    """Also where the answer takes longer than the run."""
    run: Any = Trained()
    mail, slow = Mailbox(Views(), "tos_1"), threading.Event()
    run.set = lambda **settings: slow.wait(10)
    served = Served(run, mail, Outbox())
    mail.put(UP, written(Asked(1, 0, (Call(1, "set", {}, "Python"),))))
    assert served.look()
    run.stop()
    mail.put(UP, written(Asked(2, 0, (Call(1, "set", {}, "Python"),))))
    assert served.look()
    mail.put(UP, written(Asked(3, 0)))
    assert served.look()
    slow.set()
    served._made[1].result(10)
    assert not served.look()


def test_the_progress_of_however_many_partitions_is_counted_here() -> None:
    run: Any = Trained()
    run.lifecycle.epochs.source.partitions = 200_000
    mail = Mailbox(Views(), "tos_1")
    Served(run, mail, Outbox()).look()
    content = mail.get(DOWN) or b""
    assert len(content) < 10_000
    here = followed(tos.capture(classifier()), **read(content, Told).facts)
    for event in (started(), joined(partition=1), milestone(partition=1)):
        here.lifecycle.publish(event)
    here.parts.bus.close(10)
    epoch, milestones, each, workers = here.lifecycle.progress
    assert (epoch, milestones, each[:3], workers) == (0, 1, (0, 1, 0), 1)
    assert len(each) == 200_000
