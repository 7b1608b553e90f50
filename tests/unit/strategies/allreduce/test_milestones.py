"""What the milestones of a step say: how long each worker waited, and how many steps it was."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.unit.worker.crew import Crew
from tos_notebook.coordination import cohort
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.events import DRIVER
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce.mesh_reduction import traffic_of
from tos_notebook.strategies.allreduce.milestone import MOST_LINKS, Milestone, longest, unpack
from tos_notebook.testing.programs import Counting
from tos_notebook.wire.messages import Directive


@pytest.mark.parametrize("place", ["rounds", "left_out", "sent", "received"])
def test_numbers_that_no_history_can_hold_are_refused(place: str) -> None:
    layout = Counting().spec.layout
    made = Milestone(0, 1, 0, 0, 0, 0, 0.0, 0.0)
    assert unpack(made.pack(), layout, 0) == made
    with pytest.raises(RemoteProtocolError, match="a milestone's numbers"):
        unpack(made._replace(**{place: 2**63}).pack(), layout, 0)


def test_the_busiest_links_travel_and_there_is_no_room_for_more() -> None:
    layout = Counting().spec.layout
    links = tuple((rank, 100 - rank) for rank in range(MOST_LINKS))
    made = Milestone(0, 1, 0, 0, 0, 0, 0.0, 0.0, peers=20, sent_to=links)
    assert unpack(made.pack(), layout, 0) == made
    assert len(made.pack()) == longest(layout, 0) - layout.nbytes
    with pytest.raises(RemoteProtocolError, match=f"at most {MOST_LINKS} of 20 links, got 17"):
        unpack(made._replace(sent_to=(*links, (16, 1))).pack(), layout, 0)
    with pytest.raises(RemoteProtocolError, match="at most 16 of 3 links"):
        unpack(made._replace(peers=3).pack(), layout, 0)
    with pytest.raises(RemoteProtocolError, match="links, got 16 in 0 bytes"):
        unpack(made.pack()[: -MOST_LINKS * 12], layout, 0)
    with pytest.raises(RemoteProtocolError, match="bytes of at most"):
        unpack(made._replace(sent_to=((0, 2**63),)).pack(), layout, 0)


def test_ranks_are_told_as_partitions_and_others_are_refused() -> None:
    made = Milestone(0, 1, 0, 70, 50, 0, 0.0, 0.0, peers=3, sent_to=((2, 40), (0, 30)))
    told = traffic_of(made._replace(driver=(9, 8)), 4, [3, 4, 7])
    assert told == (70, 50, ((4, 7, 40), (4, 3, 30), (4, DRIVER, 9), (DRIVER, 4, 8)), 1)
    with pytest.raises(RemoteProtocolError, match="expected ranks below 2"):
        traffic_of(made, 4, [3, 4])


class Clock:
    """The server's clock, which a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cohort, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_who_waits_for_others_in_a_push_has_waited_and_not_exchanged(clock: Clock) -> None:
    crew = Crew(AllReduce(algorithm="star"))
    first = crew.beside(lambda: crew.push(0), 0)
    clock.now += 3
    crew.push(1)
    first.result()
    # Each worker measures its exchange alone, from the push to the reply.
    first = crew.beside(lambda: crew.push(0, exchange=3.25, wait=0.5), 0)
    crew.push(1, exchange=0.25)
    first.result()
    told = crew.milestones(1)
    assert (told[0].wait, told[0].exchange) == (3.5, 0.25)
    assert (told[1].wait, told[1].exchange) == (0.0, 0.25)


def test_what_a_worker_waits_after_its_push_it_counts_itself(clock: Clock) -> None:
    crew = Crew(AllReduce(algorithm="star"), long_poll=0.0)
    assert crew.push(0) is Directive.WAIT
    clock.now += 3
    assert crew.poll(0) is Directive.WAIT
    assert crew.push(1) is Directive.GO
    assert crew.poll(0) is Directive.GO
    crew.push(0, wait=3.0, exchange=0.25)
    crew.push(1)
    assert (crew.milestones(1)[0].wait, crew.milestones(1)[0].exchange) == (3.0, 0.25)


def test_no_exchange_is_shorter_than_nothing(clock: Clock) -> None:
    crew = Crew(AllReduce(algorithm="star"))
    first = crew.beside(lambda: crew.push(0), 0)
    clock.now += 3
    crew.push(1)
    first.result()
    # By clocks that differ.
    first = crew.beside(lambda: crew.push(0, exchange=2.9), 0)
    crew.push(1)
    first.result()
    assert crew.milestones(1)[0].exchange == 0


@pytest.mark.parametrize(
    ("strategy", "steps", "expected"),
    [
        (AllReduce(algorithm="star"), (1, 1), 1),
        # The mean of several batches' gradients is one step's.
        (AllReduce(every=4, algorithm="star"), (4, 3), 1),
        # Each worker's own optimizer makes a step for each batch.
        (AllReduce("parameters", 4, "star"), (4, 3), 4),
    ],
)
def test_a_step_of_all_workers_is_told_once(
    strategy: AllReduce, steps: tuple[int, int], expected: int
) -> None:
    crew = Crew(strategy, interval=strategy.every)
    first = crew.beside(lambda: crew.push(0, steps=steps[0], samples=steps[0]), 0)
    crew.push(1, steps=steps[1], samples=steps[1])
    first.result()
    told = crew.milestones(0)
    assert [told[0].optimizer_steps, told[1].optimizer_steps] == [expected, 0]
    assert [told[0].steps, told[1].steps] == list(steps)
