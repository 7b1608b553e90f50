"""TLS between machines' addresses: driver and executors in processes of their own."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import application
from tests.clusters.standalone import Standalone
from tos_notebook.transport.sockets import is_loopback

PROGRAM = Path(__file__).with_name("tls_program.py")
ROWS, EPOCHS = 2000, 3

ELSEWHERE = ("192.0.2.1", 9)
"""An address of documents: nothing is sent there, but the system says from where it would."""


def own_address() -> str:
    """Return the address by which other machines know this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(ELSEWHERE)
        except OSError:
            pytest.skip("needs an address of this machine beside the loopback")
        return str(sock.getsockname()[0])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program has found on two executors, all at this machine's own address."""
    folder, address = tmp_path_factory.mktemp("tls"), own_address()
    with Standalone(folder / "cluster", cores=1, memory="1g", host=address) as cluster:
        settings = {
            "spark.master": cluster.master,
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
        }
        return dict(json.loads(application.run(PROGRAM, folder=folder, settings=settings)[-1]))


def test_every_batch_counts_once_over_tls_between_processes_at_the_machines_own_address(
    found: dict[str, Any],
) -> None:
    assert not is_loopback(found["address"].rpartition(":")[0])
    assert found["total"] == [EPOCHS * ROWS * (ROWS - 1) / 2, EPOCHS * ROWS]
    assert len(found["executors"]) == 2
    assert found["driver"] not in [pid for pid, _ in found["strangers"]]


def test_workers_of_two_executors_average_among_themselves_over_tls(found: dict[str, Any]) -> None:
    # Both add up half of the rows, and each average of the two is exact.
    assert found["averaged"] == [EPOCHS * ROWS * (ROWS - 1) / 4, EPOCHS * ROWS / 2]


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ("right", "let in"),
        ("wrong secret", "AuthenticationError: "),
        ("wrong pin", "AuthenticationError: "),
        ("no pin", "AuthenticationError: Expected the fingerprint of "),
    ],
)
def test_an_executor_is_let_in_with_secret_and_pin_and_else_told_why_not(
    found: dict[str, Any], held: str, told: str
) -> None:
    said = [said[held] for _, said in found["strangers"]]
    assert len(said) == 2
    assert all(text.startswith(told) for text in said), said


def test_a_run_whose_workers_hold_another_secret_fails_and_names_it(found: dict[str, Any]) -> None:
    assert found["refused"].startswith("failed: ClusterUnreachable: Executor host ")
    assert "Expected the server to hold the other side's secret" in found["refused"]
