from __future__ import annotations

import pickle
import socket
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from tests.unit.cluster.test_remote import Session
from tos_notebook.cluster import connect as connecting
from tos_notebook.cluster.environment import _reachability
from tos_notebook.cluster.executors import (
    contact_host,
    contact_port,
    encrypts_loopback,
    last_port,
    worker_ports,
)
from tos_notebook.cluster.reach import ReachabilityProbe, listening_host, make_probe
from tos_notebook.cluster.remote.context import RemoteContext
from tos_notebook.errors import ConfigError


@pytest.mark.parametrize("contact", ["127.0.0.1", "localhost"])
def test_whoever_reaches_the_probe_has_nothing_to_say(contact: str) -> None:
    with ReachabilityProbe(contact) as probe:
        assert probe.address == f"{contact}:{probe.port}"
        assert [probe.knock()() for _ in range(3)] == ["", "", ""]


def test_the_probe_leaves_no_thread_and_no_port() -> None:
    with ReachabilityProbe("127.0.0.1") as probe:
        knock = probe.knock()
    assert not any(thread.name == "tos-reachability" for thread in threading.enumerate())
    assert knock().startswith("ConnectionRefusedError")


def test_another_program_at_the_address_is_not_taken_for_the_driver() -> None:
    """As where ``localhost`` is the executor's own, and serves something there."""
    with ReachabilityProbe("127.0.0.1") as probe:
        port, knock = probe.port, probe.knock()
    with ReachabilityProbe("127.0.0.1", port):
        assert knock() == "another program answers there"


def test_one_that_accepts_and_says_nothing_is_given_up() -> None:
    with ReachabilityProbe("127.0.0.1", timeout=0.05) as probe:
        port, knock = probe.port, probe.knock()
    with socket.create_server(("127.0.0.1", port)):
        assert knock().startswith("TimeoutError")


def test_a_probe_takes_its_knock_along() -> None:
    with ReachabilityProbe("127.0.0.1") as probe:
        pickled = cloudpickle.dumps(make_probe((), 1, probe))
        assert [found["unreached"] for found in pickle.loads(pickled)(())] == [""]
    (found,) = pickle.loads(pickled)(())
    assert found["unreached"].startswith(f"{probe.address} (ConnectionRefusedError")


@pytest.mark.parametrize(
    ("contact", "host"), [("10.0.0.1", ""), ("driver.example", ""), ("::1", "::1")]
)
def test_it_listens_everywhere_but_for_executors_of_this_machine(contact: str, host: str) -> None:
    assert listening_host(contact) == host


def context(**settings: str) -> Any:
    conf = SimpleNamespace(get=lambda key, default: settings.get(key, default))
    inner = SimpleNamespace(conf=lambda: conf)
    return SimpleNamespace(master="yarn", _jsc=SimpleNamespace(sc=lambda: inner))


def test_settings_say_where_the_server_is_found_before_sparks_own_address() -> None:
    spark = {"spark.driver.host": "10.0.0.1"}
    assert (contact_host(context(**spark)), contact_port(context(**spark))) == ("10.0.0.1", 0)
    ours = {"spark.tos.server.host": "gate.example", "spark.tos.server.port": "7078"}
    sc = context(**spark, **ours)
    assert (contact_host(sc), contact_port(sc)) == ("gate.example", 7078)


def test_in_a_spark_task_a_server_looks_for_a_free_port_as_spark_does() -> None:
    """Another run's server may have it on the same host; in the driver a gateway may know it."""
    settings = {"spark.port.maxRetries": "3"}
    task = RemoteContext(Session())
    task.setting = settings.get  # type: ignore[assignment]
    assert last_port(task, 7080) == 7080
    task.taken = 1
    assert [last_port(task, port) for port in (0, 7080, 65534)] == [0, 7083, 65535]
    assert last_port(context(**settings), 7080) == 7080


@pytest.mark.parametrize("value", ["http", "-1", "65536", "7.5"])
def test_a_setting_that_is_no_port_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.tos\.server\.port: expected a port"):
        contact_port(context(**{"spark.tos.server.port": value}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0", (0, 0)), ("40000", (40000, 40000)), ("40000-40100", (40000, 40100))],
)
def test_a_setting_says_on_which_ports_workers_listen(
    value: str, expected: tuple[int, int]
) -> None:
    assert worker_ports(context()) == (0, 0)
    assert worker_ports(context(**{"spark.tos.worker.port": value})) == expected


@pytest.mark.parametrize("value", ["any", "-1", "7-", "0-9", "40100-40000", "1-65536", "1-2-3"])
def test_a_setting_that_is_no_range_of_ports_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.tos\.worker\.port: expected a port or a range"):
        worker_ports(context(**{"spark.tos.worker.port": value}))


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("False", False)])
def test_a_setting_says_whether_loopback_is_encrypted_too(value: str, expected: bool) -> None:
    assert not encrypts_loopback(context())
    assert encrypts_loopback(context(**{"spark.tos.server.tls": value})) is expected
    with pytest.raises(
        ConfigError, match=r"spark\.tos\.server\.tls: expected true or false, got 'y'"
    ):
        encrypts_loopback(context(**{"spark.tos.server.tls": "y"}))


ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize(
    ("master", "settings", "warned"),
    [
        ("yarn", {}, True),
        ("k8s://host", {"spark.authenticate": "true"}, True),
        ("spark://host:7077", {"spark.network.crypto.enabled": "true"}, True),
        ("spark://host:7077", ENCRYPTED, False),
        ("yarn", {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"}, False),
        ("spark://host:7077", {"spark.driver.host": "127.0.0.1"}, False),
        ("spark://host:7077", {"spark.driver.host": "10.0.0.1"}, True),
        ("local[2]", {}, False),
        ("local-cluster[2,1,1024]", {}, False),
    ],
)
def test_tasks_in_clear_are_warned_of_once_with_the_settings_to_make(
    master: str, settings: dict[str, str], warned: bool
) -> None:
    sc = context(**settings)
    sc.master, sc.applicationId = master, f"application of {master} with {settings}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            connecting._warn_in_clear(sc)
    assert len(caught) == warned
    security = (Path(__file__).parents[3] / "SECURITY.md").read_text()
    lines = security.partition("```\n")[2].partition("```")[0].splitlines()
    assert len(lines) == 4
    for found in caught:
        assert f"to {master} are not protected" in str(found.message)
        assert [line.strip() for line in str(found.message).splitlines()[1:5]] == lines


def test_a_port_that_a_session_has_is_not_asked_for_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = ("127.0.0.1", server.getsockname()[1])
        with _reachability(context(), taken) as probe:
            assert probe is None


def test_a_local_spark_reaches_itself() -> None:
    with _reachability(SimpleNamespace(master="local[2]"), None) as probe:  # type: ignore[arg-type]
        assert probe is None
