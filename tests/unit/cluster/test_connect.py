"""Starting Spark needs a process of its own; see test_start.py."""

from __future__ import annotations

import os
import socket
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkConf

from tos_notebook.cluster import connect as module
from tos_notebook.cluster.backend import require_jvm
from tos_notebook.cluster.connect import connect
from tos_notebook.cluster.executors import (
    contact_host,
    executor_of,
    executor_of_started,
    is_local,
    slots,
    task_cores,
)
from tos_notebook.cluster.given import given_spark
from tos_notebook.cluster.remote import opening
from tos_notebook.errors import ClusterUnreachable, ConnectError, RemoteProtocolError, TosError


def test_an_active_context_is_adopted(spark_context: Any) -> None:
    spark = connect(warm_up=False)
    assert spark.sparkContext is spark_context
    for given in (spark_context, spark, "local[2,4]"):
        assert connect(given, warm_up=False).sparkContext is spark_context
    assert connect(spark, warm_up=False) is spark


def test_a_spark_that_the_user_made_is_not_stopped_when_its_executors_do_not_come(
    spark_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def nobody(sc: Any, timeout: float) -> None:
        waited.append(timeout)
        raise ClusterUnreachable("no executor came")

    monkeypatch.setattr(module.environment, "warm_up", nobody)
    with pytest.raises(ClusterUnreachable, match="no executor came"):
        connect(spark_context, timeout=900)
    assert waited == [900.0]
    assert spark_context.parallelize([1], 1).collect() == [1]


def test_another_master_says_which_is_active(spark_context: Any) -> None:
    with pytest.raises(ConnectError, match=r"Expected local\[3\].*local\[2,4\].*spark.stop\(\)"):
        connect("local[3]", warm_up=False)


def test_settings_of_a_running_spark_do_not_change_silently(spark_context: Any) -> None:
    connect(config={"spark.driver.memory": "1g"}, warm_up=False)
    with pytest.raises(ConnectError, match=r"other settings: \{'spark.driver.memory': '1g'\}"):
        connect(config={"spark.driver.memory": "4g"}, warm_up=False)


def test_a_stopped_context_is_refused() -> None:
    from pyspark import SparkContext

    stopped = SparkContext.__new__(SparkContext)
    stopped._jsc = None
    with pytest.raises(ConnectError, match="context is stopped"):
        connect(stopped)


class RemoteSession:
    """A session of Spark Connect, of which its server has heard nothing yet."""

    __module__ = "pyspark.sql.connect.session"
    client = None

    def __init__(self, is_stopped: bool = False) -> None:
        self.is_stopped = is_stopped


def test_what_needs_rdds_refuses_a_spark_connect_session() -> None:
    for use in (module.running_context, partial(require_jvm, what="saving a stage")):
        with pytest.raises(ConnectError, match=r"no RDDs|has none"):
            use(RemoteSession())


def test_a_stopped_spark_connect_session_is_refused() -> None:
    with pytest.raises(ConnectError, match=r"stopped. Call connect\(\) again"):
        connect(RemoteSession(is_stopped=True))  # type: ignore[arg-type]


def test_a_frame_is_no_spark_connect_session() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(ConnectError, match=r"got DataFrame of one\. Give its sparkSession"):
        connect(frame)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_no_other_spark_is_started_beside_a_spark_connect_session(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It would train on this machine alone, unasked."""
    monkeypatch.setattr(module, "active_context", lambda: None)
    monkeypatch.setenv(name, "sc://host")
    with pytest.raises(ConnectError, match=rf"{name} is set: .*sc://.*without {name}"):
        connect("local[2]")


def test_a_server_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """The one that the environment names, too, which PySpark itself would look for for minutes."""
    monkeypatch.setattr(opening, "_has_jvm", lambda: False)
    address = f"sc://127.0.0.1:{free_port}"
    monkeypatch.setenv("SPARK_REMOTE", address)
    for given in (address, None):
        with pytest.raises(ClusterUnreachable, match=rf"No answer from {address} .*15002|port"):
            connect(given)


def test_something_else_is_refused() -> None:
    with pytest.raises(ConnectError, match=r"Expected a master.*got int"):
        connect(7)  # type: ignore[arg-type]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the settings that Spark is to be started with; none is: `connect` says so."""
    found: list[Any] = []

    def refuse(conf: Any) -> None:
        found.append(conf)
        raise OSError("none in this test")

    for name in ("SPARK_MASTER", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    # Set before it is deleted, so that whatever the code sets is undone.
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(module, "active_context", lambda: None)
    # Without those of a Spark that other tests have started.
    monkeypatch.setattr("pyspark.SparkConf", partial(SparkConf, loadDefaults=False))
    monkeypatch.setattr("pyspark.SparkContext", refuse)
    # What is imported while Java starts takes seconds.
    monkeypatch.setitem(sys.modules, "keras", None)
    return found


def start(master: str | None = None, **config: str) -> None:
    """Ask for a Spark of one's own, of which `asked` is told."""
    with pytest.raises(TosError, match=r"Spark does not start on .*: none in this test"):
        connect(master, config={name.replace("__", "."): value for name, value in config.items()})


@pytest.mark.parametrize(
    ("master", "resolves", "given", "inside"),
    [
        ("local[2]", False, None, "127.0.0.1"),
        ("local[2]", False, "192.0.2.1", "192.0.2.1"),
        ("local[2]", True, None, None),
        ("yarn", False, None, None),
    ],
)
def test_a_local_spark_is_told_where_a_host_is_whose_name_does_not_resolve(
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    master: str,
    resolves: bool,
    given: str | None,
    inside: str | None,
) -> None:
    """Only while it starts: the next Spark of this process may be on a cluster."""

    def resolve(*_: object) -> list[object]:
        if not resolves:
            raise socket.gaierror("Name or service not known")
        return []

    def refuse(conf: Any) -> None:
        asked.append(os.environ.get("SPARK_LOCAL_IP"))
        raise OSError("none in this test")

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    monkeypatch.setattr("pyspark.SparkContext", refuse)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    if given is not None:
        monkeypatch.setenv("SPARK_LOCAL_IP", given)
    start(master)
    assert asked == [inside]
    assert os.environ.get("SPARK_LOCAL_IP") == given


@pytest.mark.parametrize("master", ["local[x]", "localhost:7077", "http://host:7077", "spark://"])
def test_a_malformed_master_is_refused_before_spark_starts(asked: list[Any], master: str) -> None:
    with pytest.raises(ConnectError, match="Expected a master such as local"):
        connect(master)
    assert asked == []
    # Where a call is given a Spark, its error names the parameter.
    with pytest.raises(ConnectError, match=r"^spark: expected a master such as local"):
        given_spark(master)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2, 4]", "local-cluster[2,1,1024]", "yarn"]
)
def test_masters_without_an_address_pass(asked: list[Any], master: str) -> None:
    start(master)
    assert asked[0].get("spark.master") == master


@pytest.fixture
def free_port() -> int:
    """A port on which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("scheme", ["spark://", "k8s://https://", "k8s://"])
def test_a_master_that_does_not_answer_is_named_at_once(
    asked: list[Any], scheme: str, free_port: int
) -> None:
    """Spark itself would try for a minute."""
    master = f"{scheme}127.0.0.1:{free_port}"
    with pytest.raises(ClusterUnreachable, match=f"No answer from {master} .*refused"):
        connect(master)
    assert asked == []


@pytest.mark.parametrize("address", ["127.0.0.1:port", "127.0.0.1:99999"])
def test_an_impossible_port_is_named(asked: list[Any], address: str) -> None:
    with pytest.raises(ClusterUnreachable, match=f"{address}: "):
        connect(f"spark://{address}")
    assert asked == []


def test_one_of_several_masters_is_enough(asked: list[Any], free_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        start(f"spark://127.0.0.1:{free_port},127.0.0.1:{port}")
    assert len(asked) == 1


def test_the_default_master_is_looked_up_in_order(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    start()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose --master local[3] pyspark-shell")
    start()
    monkeypatch.setenv("SPARK_MASTER", "local[4]")
    start()
    start(spark__master="local[5]")
    masters = [conf.get("spark.master") for conf in asked]
    assert masters == ["local[*]", "yarn", "local[3]", "local[4]", "local[5]"]


def test_spark_defaults_are_read_as_spark_reads_them(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands there is Spark's to set, so we set nothing in its place."""
    start()
    name, memory, options = (
        "spark.log.level",
        "spark.driver.memory",
        "spark.driver.extraJavaOptions",
    )
    assert all(asked[0].contains(key) for key in (name, memory, options))
    (tmp_path / "spark-defaults.conf").write_text(
        f"# {name} WARN\n\nspark.master   yarn\n{memory}=3g\n{options} -Da=b -Dc=d\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    start()
    assert asked[1].get("spark.master") == "yarn"
    assert [asked[1].contains(key) for key in (name, memory, options)] == [True, False, False]
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    start()
    assert asked[2].getAll() == asked[0].getAll()


def test_what_spark_submit_was_told_counts(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its JVM runs already: neither is Java looked for, nor is it told how much memory to take."""
    told = {"spark.master": "yarn", "spark.log.level": "WARN", "spark.app.name": "nightly"}
    monkeypatch.setattr(module, "submitted_settings", lambda: told)
    monkeypatch.setenv("SPARK_MASTER", "local[4]")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    start()
    assert [asked[0].get(f"spark.{key}") for key in ("master", "app.name")] == ["yarn", "nightly"]
    kept = ["spark.log.level", "spark.driver.memory", "spark.driver.extraJavaOptions"]
    assert not any(asked[0].contains(key) for key in kept)
    assert asked[0].contains("spark.port.maxRetries")
    start("local[2]")
    assert asked[1].get("spark.master") == "local[2]"


def test_the_workers_python_is_ours_only_for_embedded_masters(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    start("yarn")
    assert "PYSPARK_PYTHON" not in os.environ
    start("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    start("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    # PySpark itself reads the environment only.
    start("yarn", spark__pyspark__python="/opt/other")
    assert os.environ["PYSPARK_PYTHON"] == "/opt/other"


def test_a_local_spark_has_one_executor_the_driver(spark_context: Any) -> None:
    assert is_local(spark_context)
    assert slots(spark_context) == 2
    assert task_cores(spark_context) == 1
    assert contact_host(spark_context) == "127.0.0.1"
    assert executor_of(spark_context, 0) == ("driver", "127.0.0.1")


def test_a_task_that_spark_has_not_started_has_no_place(spark_context: Any) -> None:
    def task(_: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return context.taskAttemptId()

    started = spark_context.parallelize([0], 1).map(task).first()
    assert executor_of_started(spark_context, started) == ("driver", "127.0.0.1")
    for unknown in (started + 1000, 2**62):
        with pytest.raises(RemoteProtocolError, match="tasks that Spark has started"):
            executor_of_started(spark_context, unknown)


@pytest.mark.parametrize(
    ("master", "cpus", "expected"),
    [("local", "1", 1), ("local[8]", "1", 8), ("local[8, 3]", "3", 2), ("local[1]", "4", 1)],
)
def test_slots_count_tasks_not_cores(master: str, cpus: str, expected: int) -> None:
    conf = SimpleNamespace(get=lambda *_: cpus)
    java = SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: conf))
    sc: Any = SimpleNamespace(master=master, _jsc=java)
    assert slots(sc) == expected
