"""What the program `workers` makes of the times that simulated workers have seen."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from benchmarks.lib.serving import serving
from benchmarks.lib.simulated import Load, Replayed, Simulated, ToDriver
from benchmarks.lib.usage import processor_seconds, resident
from benchmarks.scale.workers import Measured, between, parts_of, predicted
from tos_notebook.common.arrays import aligned_empty
from tos_notebook.steering.machine import Command
from tos_notebook.transport.auth import new_secret

BY = Measured(100.0, 0.01, 1.0, 10**8, 1e-3, 1e-3, 5e-4, [])


def test_rates_are_those_between_the_first_and_the_last_push_in_the_window() -> None:
    steady = [(0.5, 0.1), (1.5, 0.1), (2.5, 0.1), (3.5, 0.1)]
    slow = [(1.0, 0.3), (3.0, 0.5), (5.0, 0.1)]
    rate, slowest, exchange = between([Replayed([], [steady]), Replayed([], [slow])], 1.0, 4.0)
    assert rate == pytest.approx(4 / 2.5)
    assert slowest == pytest.approx(0.5 / 0.75)
    assert exchange == pytest.approx((3 * 0.1 + 0.3 + 0.5) / 5)


def test_a_worker_that_waits_throughout_the_window_is_the_slowest() -> None:
    seen = [Replayed([], [[(1.0, 0.1), (2.0, 0.1)], [(2.0, 0.1)]])]
    assert between(seen, 0.0, 4.0) == (2.0, 0.0, pytest.approx(0.1))


def test_few_workers_are_predicted_to_push_as_they_think_and_many_as_the_server_allows() -> None:
    load = Load(4, 1000, think=0.1)
    assert predicted(BY, load) == pytest.approx(4 / 0.1015, rel=0.05)
    assert predicted(BY, load._replace(workers=1000)) == pytest.approx(1000, rel=0.02)


def test_a_row_says_what_was_simulated_beside_what_was_measured() -> None:
    parts = parts_of(BY, BY, Load(0, 1000, think=0.1), 1000, 0.5)
    assert parts["simulated / measured"].endswith("1/s, 10.00")
    assert parts["both ways"] == "0.2 MB/s"
    assert parts["server's, workers' cores in use"] == "0.10, 0.05"


def test_a_simulated_worker_pushes_until_it_is_told_to_stop() -> None:
    update = np.ones(1000, np.float32).view(np.uint8)
    secret = new_secret()
    with serving(update.nbytes, 1, secret) as (server, training, _):
        address = (*server.address, secret, server.fingerprint)
        way = ToDriver(address, 0, update, aligned_empty(update.nbytes))
        worker = Simulated(way, 0, Load(1, update.nbytes))
        thread = threading.Thread(target=worker.run)
        thread.start()
        while not worker.pushes and thread.is_alive():
            thread.join(0.01)
        training.command(Command.STOP, "test")
        thread.join(60.0)
        assert worker.error == ""
        assert len(worker.pushes) == training.parameters.version
        assert (training.parameters.read()[0].view(np.float32) == len(worker.pushes)).all()


def test_memory_and_processor_time_are_those_of_this_process() -> None:
    assert resident() > 1_000_000
    assert resident("VmHWM", os.getpid()) >= resident() // 2
    assert processor_seconds(os.getpid()) > 0
