"""What the driver answers workers of one generation, and those that say what no worker says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.crew import Crew
from tests.unit.worker.support import join as joining
from tests.unit.worker.support import push
from tos_notebook.common.arrays import Array, Buffer
from tos_notebook.coordination.rendezvous import ATTEMPTS, IN_VAIN
from tos_notebook.errors import ConnectError, RemoteProtocolError, SessionClosed, WaitTimeout
from tos_notebook.reduction.sharing import Within
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce.milestone import Milestone, join
from tos_notebook.strategies.allreduce.trainer import Copied
from tos_notebook.wire.messages import Awaiting, Directive, Formed, Poll, Ready, Reply

Says = Mapping[str, Any]
"""Fields of a milestone."""

NOTHING: Says = {}


class Linked(Crew):
    """A run of workers that connect to each other, called without connections."""

    def __init__(self, workers: int = 2) -> None:
        super().__init__(AllReduce(algorithm="ring"), workers, long_poll=0.0)

    def ready(self, worker: int, epoch: int = 0) -> Any:
        message = Ready(epoch, "here", 1, "")
        return self.exchanges[worker].form(self.members[worker], message)[0]

    def connect(self, epoch: int = 0) -> None:
        """Let all workers know of a generation."""
        for worker in range(len(self.members)):
            self.ready(worker, epoch)
        for worker in range(len(self.members) - 1):
            assert isinstance(self.ready(worker, epoch), Formed)

    def report(
        self, worker: int, state: Sequence[Array] = (), says: Says = NOTHING, **changes: Any
    ) -> Reply:
        """Report a worker's next milestone, with the optimizer's state, and what it says else."""
        message = push(self.counts[worker], base_version=self.run.parameters.version)
        message = message._replace(**changes)
        copy = join(self.layout.allocate(), state)
        payload = Milestone(0, 1, 0, 0, 0, 0, 1, 0.0, 0.0, copy)._replace(**says).pack()
        place = self.exchanges[worker].receive_into(message, len(payload))
        assert place is not None
        place[:] = payload.data
        answer = self.exchanges[worker].push(self.members[worker], message)[0]
        assert isinstance(answer, Reply)
        return answer

    def awaits(self, worker: int, problem: str = "", rank: int | None = None) -> Directive:
        """Return what a worker is told that waits for the other one, or cannot reach it."""
        rendezvous = self.run.trainer._reduction._cohort._rendezvous  # type: ignore[attr-defined]
        message = Awaiting(rendezvous._generation, 1 - worker if rank is None else rank, problem)
        return self.exchanges[worker].form(self.members[worker], message)[0].directive

    def replace(self, worker: int) -> None:
        """Let the next attempt of a partition join."""
        task = self.members[worker].task + 100
        self.members[worker], _ = self.run.requests.join(joining(worker, task), False)

    def asked(self, worker: int) -> Any:
        """Return the answer to a worker that waits."""
        self.exchanges[worker].receive_into(Poll(0), 0)
        return self.exchanges[worker].poll(self.members[worker], Poll(0))[0]


def test_a_report_under_unknown_settings_is_refused_and_keeps_no_other_waiting() -> None:
    crew = Crew(AllReduce(algorithm="star"), long_poll=0.0)
    assert crew.push(0) is Directive.WAIT
    with pytest.raises(RemoteProtocolError, match="settings_version"):
        crew.push(1, settings_version=7)
    crew.counts[1] = 0
    assert crew.push(1) is Directive.GO
    assert crew.poll(0) is Directive.GO


def test_who_asks_for_an_epoch_that_is_over_forms_no_generation() -> None:
    crew = Linked()
    for member in crew.members:
        crew.run.state.ledger.finish(0, member.partition, member.task)
    assert crew.ready(0).directive is Directive.WAIT
    assert not crew.run.trainer._reduction._cohort._rendezvous.used  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "place",
    [("here", 0, ""), ("here", 70_000, ""), ("here", 1, "ab"), ("here", 1, "no digit" * 8)],
)
def test_a_place_that_cannot_be_one_is_refused_and_told_to_no_other(
    place: tuple[str, int, str],
) -> None:
    crew = Linked()
    crew.ready(0)
    with pytest.raises(RemoteProtocolError, match="Ready: expected"):
        crew.exchanges[1].form(crew.members[1], Ready(0, *place))
    assert crew.ready(0).directive is Directive.WAIT


def test_how_workers_exchange_is_told_for_as_long_as_they_do() -> None:
    crew = Linked()
    crew.connect()
    notes = []
    for number, within in enumerate((Within.SHARED, Within.APART, Within.NONE)):
        crew.report(0, says={"within": within}, sequence=number)
        crew.report(1, says={"within": within}, sequence=number)
        crew.asked(0)
        notes.append(crew.run.notes)
    assert ["memory" in " ".join(each) for each in notes] == [True, True, False]
    assert crew.run.parameters.version == 3


def test_a_milestone_of_a_rank_that_does_not_exist_changes_nothing() -> None:
    crew = Linked()
    crew.connect()
    crew.report(0)
    crew.report(1, says={"peers": 1, "sent_to": ((2, 10),)})
    assert "expected ranks below 2" in str(crew.run.error)
    assert crew.run.parameters.version == 0


def test_a_step_of_workers_with_different_settings_is_made_again() -> None:
    crew = Linked()
    crew.connect()
    crew.run.change_settings(Command.SET, "", learning_rate=0.25)
    assert crew.report(0, settings_version=0).directive is Directive.WAIT
    assert crew.report(1, settings_version=1).status == "again"
    assert crew.run.parameters.version == 0
    crew.connect()
    assert crew.report(0, settings_version=1).directive is Directive.WAIT
    assert crew.report(1, settings_version=1).status == "committed"


def test_a_worker_that_asks_just_after_its_step_was_made_learns_that_it_counts() -> None:
    crew = Linked()
    crew.connect()
    assert crew.report(0).directive is Directive.WAIT
    assert crew.report(1).status == "committed"
    proceed = crew.asked(0)
    assert (proceed.directive, proceed.version) == (Directive.GO, 1)


def test_a_report_of_an_epoch_that_is_over_drops_no_report_of_others() -> None:
    crew = Linked()
    for member in crew.members:
        crew.run.state.ledger.finish(0, member.partition, member.task)
    crew.connect(epoch=1)
    assert crew.report(0, epoch=1).directive is Directive.WAIT
    with pytest.raises(RemoteProtocolError, match="epoch 1"):
        crew.report(1, epoch=0, steps=0, samples=0)
    assert crew.report(1, epoch=1).status == "committed"


def test_a_report_of_an_epoch_that_ends_meanwhile_makes_no_step() -> None:
    crew = Linked()
    crew.connect()
    assert crew.report(0).directive is Directive.WAIT
    for member in crew.members:
        crew.run.state.ledger.finish(0, member.partition, member.task)
    assert crew.asked(0).directive is Directive.GO
    assert (crew.run.parameters.version, crew.run.error) == (0, None)


def test_a_step_that_cannot_be_stored_leaves_parameters_and_optimizer_of_one_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Counting, "state", lambda self: [np.zeros(1)])
    crew = Linked()
    crew.connect()

    def refuse(buffer: Buffer) -> int:
        raise WaitTimeout("The parameters are still being read.")

    monkeypatch.setattr(crew.run.trainer.parameters, "adopt", refuse)
    crew.report(0, [np.ones(1)])
    crew.report(1, [np.ones(1)])
    assert isinstance(crew.run.error, WaitTimeout)
    copied = crew.run.trainer.snapshot(lambda: None)
    assert isinstance(copied, Copied)
    assert (copied.version, copied.state) == (0, [0.0])


def test_all_workers_that_connect_at_a_time_begin_with_one_copy() -> None:
    crew = Linked(3)

    def copies() -> list[Any]:
        places = [*zip(crew.exchanges, crew.members, strict=True)] * 2
        message = Ready(0, "here", 1, "")
        answers = [exchange.form(member, message) for exchange, member in places[:5]]
        return [payload for formed, payload in answers if isinstance(formed, Formed)]

    before = copies()
    assert [each is before[0] for each in before] == [True] * 3
    for worker in range(3):
        crew.report(worker)
    after = copies()
    assert [each is after[0] for each in after] == [True] * 3
    assert after[0] is not before[0]


def test_a_worker_waits_for_others_of_its_generation_until_one_of_them_is_lost() -> None:
    crew = Linked()
    crew.connect()
    assert crew.awaits(0) is Directive.WAIT
    crew.run.state.lost(crew.members[1], "its process has ended")
    assert crew.awaits(0) is Directive.GO


def test_a_worker_that_awaits_others_ends_when_the_run_is_stopped() -> None:
    crew = Linked()
    crew.connect()
    crew.run.command(Command.STOP)
    assert crew.awaits(0) is Directive.STOP
    assert crew.run.wait_left(0.0) is False
    assert crew.awaits(1) is Directive.STOP
    assert crew.run.wait_left(0.0) is True


def test_a_superseded_worker_is_awaited_no_longer_and_awaits_no_other() -> None:
    crew = Linked()
    crew.connect()
    assert crew.run.supersede(crew.members[1], "it stood still")
    assert crew.awaits(0) is Directive.GO
    with pytest.raises(SessionClosed):
        crew.awaits(1)


def test_a_worker_that_was_lost_counts_as_no_attempt_to_connect() -> None:
    crew = Linked()
    for _ in range(2 * ATTEMPTS):
        crew.connect()
        crew.run.state.lost(crew.members[1], "its process has ended")
        assert crew.awaits(0, "refused") is Directive.GO
        crew.replace(1)
    assert crew.run.error is None


def test_live_workers_that_do_not_connect_end_the_run_with_both_named() -> None:
    crew = Linked()
    for _ in range(ATTEMPTS - 1):
        crew.connect()
        assert crew.awaits(0, "Refused.") is Directive.GO
        # Others learn it when they ask, and do not count it once more.
        assert crew.awaits(1, "Refused.") is Directive.GO
    crew.connect()
    assert crew.awaits(0, "Refused.") is Directive.STOP
    assert isinstance(crew.run.error, ConnectError)
    assert "partition 0 on here cannot connect to that of partition 1" in str(crew.run.error)
    assert "strategy='allreduce:star'" in str(crew.run.error)


def test_attempts_to_connect_are_forgotten_after_a_step() -> None:
    crew = Linked()
    for sequence in range(ATTEMPTS):
        crew.connect()
        assert crew.awaits(1, "refused") is Directive.GO
        crew.connect()
        crew.counts = [sequence] * 2
        assert crew.report(0).directive is Directive.WAIT
        assert crew.report(1).status == "committed"
    assert crew.run.error is None


def test_who_awaits_a_rank_that_the_generation_does_not_have_is_refused() -> None:
    crew = Linked()
    crew.connect()
    with pytest.raises(RemoteProtocolError, match="rank below 2, got 7"):
        crew.awaits(0, "refused", rank=7)
    assert crew.awaits(0) is Directive.WAIT


def test_a_worker_that_is_ready_again_and_again_is_lost_and_the_others_continue() -> None:
    crew = Linked()
    for _ in range(IN_VAIN):
        crew.connect()
        crew.ready(0)
    crew.connect()
    with pytest.raises(RemoteProtocolError, match="expected partition 0 to train with others"):
        crew.ready(0)
    # The other one was not disturbed by it, and learns of the loss when it asks.
    assert crew.awaits(1) is Directive.GO
    crew.replace(0)
    crew.connect()
    assert crew.report(0).directive is Directive.WAIT
    assert crew.report(1).status == "committed"


def test_who_loses_others_that_die_before_a_step_keeps_its_place() -> None:
    crew = Linked()
    for _ in range(2 * IN_VAIN):
        crew.connect()
        crew.run.state.lost(crew.members[1], "its process has ended")
        crew.ready(0)
        crew.replace(1)
    crew.connect()
    assert crew.report(0).directive is Directive.WAIT
    assert crew.report(1).status == "committed"


def test_who_loses_others_between_steps_may_do_so_as_often_as_it_happens() -> None:
    crew = Linked()
    for sequence in range(2 * IN_VAIN):
        crew.connect()
        crew.ready(0)
        crew.connect()
        crew.counts = [sequence] * 2
        assert crew.report(0).directive is Directive.WAIT
        assert crew.report(1).status == "committed"
