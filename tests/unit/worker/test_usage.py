"""What workers tell of the processor and the memory that they use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.support import Served, counting_training, numbers, of
from tos_notebook.data import room
from tos_notebook.events import MilestoneCommitted
from tos_notebook.worker.usage import EVERY, UsageMeter


class Machine:
    """A clock, a processor and memory that the test moves."""

    def __init__(self) -> None:
        self.time, self.used, self.bytes = 100.0, 7.0, 4096
        self.meter = UsageMeter(lambda: self.time, lambda: self.used, lambda: self.bytes)

    def work(self, seconds: float, cores: float) -> None:
        self.time += seconds
        self.used += seconds * cores


def test_a_measurement_is_of_the_time_since_the_one_before() -> None:
    machine = Machine()
    machine.work(0.5, cores=0.5)
    assert machine.meter.read() == (0.5, 4)
    machine.work(2.0, cores=3.0)
    machine.bytes = 8192
    assert machine.meter.read() == (3.0, 8)


def test_it_measures_no_more_often_than_once_a_second() -> None:
    machine = Machine()
    machine.work(0.5, cores=0.5)
    first = machine.meter.read()
    machine.work(EVERY / 2, cores=2.0)
    assert machine.meter.read() == first
    machine.work(EVERY / 2, cores=2.0)
    assert machine.meter.read() == (2.0, 4)


def test_no_time_has_no_share() -> None:
    assert Machine().meter.read() == (0.0, 4)


def test_this_process_has_memory_where_the_system_tells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    statm = tmp_path / "statm"
    monkeypatch.setattr(room, "RESIDENT", statm)
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096}.__getitem__)
    assert UsageMeter().read()[1] == 0
    statm.write_text("900 300 20 1 0 80 0\n")
    assert UsageMeter().read()[1] == 1200
    statm.write_text("")
    assert UsageMeter().read()[1] == 0


@pytest.mark.parametrize("kib", [0, 2048])
def test_milestones_bring_what_their_worker_used(
    serve: Any, monkeypatch: pytest.MonkeyPatch, kib: int
) -> None:
    monkeypatch.setattr(UsageMeter, "read", lambda self: (1.5, kib))
    training, events = counting_training(columns=(numbers(2),))
    served: Served = serve(training)
    served.work(Counting(), columns=1)
    told = {(event.cpu, event.memory) for event in of(MilestoneCommitted, events)}
    assert told == {(1.5, 1024 * kib or None)}
