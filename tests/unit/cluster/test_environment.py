from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook import __version__
from tos_notebook.cluster import environment
from tos_notebook.cluster.connect import connect
from tos_notebook.cluster.environment import check_reports, driver_packages, make_probe, warm_up
from tos_notebook.errors import ClusterUnreachable, ConnectError, WorkerEnvironment

WANTED = {"numpy": "2.1.0", "tensorflow": "2.20.0"}


def report(
    host: str, missing: dict[str, str] | None = None, unreached: str = "", **packages: str
) -> dict[str, Any]:
    return {
        "host": host,
        "executable": "/usr/bin/python3",
        "packages": packages,
        "missing": missing or {},
        "unreached": unreached,
    }


def test_the_drivers_own_versions_pass() -> None:
    check_reports([report("a", numpy="2.1.0", tensorflow="2.20.0"), report("b")], WANTED)


@pytest.mark.parametrize("spelling", ["2.20.0+cpu", "2.20.0-rc1", "2.20.0.dev1"])
def test_only_the_release_counts(spelling: str) -> None:
    check_reports([report("a", tensorflow=spelling)], WANTED)


def test_an_unknown_version_in_the_driver_is_not_compared() -> None:
    check_reports([report("a", tensorflow="2.20.0")], {"tensorflow": ""})


def test_each_host_is_named_once_with_all_that_is_wrong() -> None:
    lost = {"tensorflow": "ModuleNotFoundError: No module named 'tensorflow'"}
    reports = [
        report("a", lost, numpy="1.26.4"),
        report("a", lost, numpy="1.26.4"),
        report("b", numpy="2.1.0", tensorflow="2.20.0"),
        report("c", numpy="2.1.0", tensorflow="2.2.0"),
    ]
    with pytest.raises(WorkerEnvironment) as caught:
        check_reports(reports, WANTED)
    lines = str(caught.value).splitlines()
    assert lines[:2] == [
        "Host a: /usr/bin/python3 cannot import tensorflow (ModuleNotFoundError: No module named "
        "'tensorflow'); numpy is 1.26.4, but the driver has 2.1.0.",
        "Host c: tensorflow is 2.2.0, but the driver has 2.20.0.",
    ]
    for way_out in ("spark.archives", "--ship-package", "spark.submit.pyFiles", "PYSPARK_PYTHON"):
        assert way_out in lines[2]
    assert len(lines) == 3


def test_a_host_that_does_not_reach_the_driver_is_named_with_address_and_setting() -> None:
    lost = report("b", unreached="driver:7077 (gaierror: unknown)", numpy="2.1.0")
    with pytest.raises(ClusterUnreachable) as caught:
        check_reports([report("a"), lost, lost], WANTED)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("Host b: it does not reach the driver at driver:7077 (")
    assert "(gaierror: unknown)" in line
    assert "set server_host (spark.tos.server.host)" in line


def test_all_that_is_wrong_with_a_host_is_in_one_line() -> None:
    """Two of its workers may report different things."""
    reports = [report("a", tensorflow="2.2.0"), report("a", unreached="driver:7077 (timed out)")]
    with pytest.raises(WorkerEnvironment) as caught:
        check_reports(reports, WANTED)
    first, advice = str(caught.value).splitlines()
    assert "tensorflow is 2.2.0" in first
    assert "driver:7077" in first
    assert advice.startswith("Install")


def test_another_version_of_this_package_is_named() -> None:
    with pytest.raises(WorkerEnvironment, match=r"tos_notebook is 0\.0\.1, but the driver has"):
        check_reports([report("a", tos_notebook="0.0.1")], {"tos_notebook": __version__})


def test_the_driver_knows_its_packages() -> None:
    assert all(driver_packages().values())


def test_the_probe_reports_on_its_process_and_survives_a_failing_import() -> None:
    (found,) = make_probe(("json", "no_such_package"), 1)(())
    assert set(found["packages"]) == {"json"}
    assert "No module named 'no_such_package'" in found["missing"]["no_such_package"]
    assert found["python"].startswith("3.")


def test_a_warm_up_that_does_not_end_is_cancelled_and_named(
    spark_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(_: Any) -> Any:
        threading.Event().wait(60)
        return ()

    monkeypatch.setattr(environment, "make_probe", lambda *_: stuck)
    spark_context.setLocalProperty("spark.jobGroup.id", "the user's own")
    try:
        with pytest.raises(ClusterUnreachable, match=r"did not finish warming up in 0\.2 s"):
            warm_up(spark_context, timeout=0.2)
        assert spark_context.getLocalProperty("spark.jobGroup.id") == "the user's own"
    finally:
        spark_context.setLocalProperty("spark.jobGroup.id", None)
    assert spark_context.parallelize([1], 1).collect() == [1]


@pytest.mark.parametrize("with_session", [False, True])
def test_a_probe_that_raises_is_told_without_javas_stack(
    spark_context: Any, monkeypatch: pytest.MonkeyPatch, with_session: bool
) -> None:
    """A SparkSession makes PySpark raise errors of another class."""
    if with_session:
        connect(warm_up=False)

    def failing(_: Any) -> Any:
        raise RuntimeError("disk full")

    monkeypatch.setattr(environment, "make_probe", lambda *_: failing)
    with pytest.raises(ConnectError, match="RuntimeError: disk full") as caught:
        warm_up(spark_context)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[PYTHON_VERSION_MISMATCH] worker 3.9, driver 3.11", "has another version than the dri"),
        ('IOException: Cannot run program "python3.9": error=2', "does not start"),
    ],
)
def test_a_python_that_cannot_work_is_named_with_the_way_out(text: str, message: str) -> None:
    sc: Any = SimpleNamespace(pythonExec="python3.9")
    named = environment._job_error(sc, RuntimeError(text))
    assert isinstance(named, WorkerEnvironment)
    assert str(named).startswith("The workers' Python, python3.9, " + message)
    assert "call spark.stop(), set PYSPARK_PYTHON" in str(named)


def test_a_limit_that_is_too_small_for_tensorflow_is_named() -> None:
    torn = {"tensorflow": "ImportError: libtf.so: failed to map segment from shared object"}
    with pytest.raises(WorkerEnvironment) as caught:
        check_reports([report("a", torn)], WANTED, "1g")
    assert "spark.executor.pyspark.memory is 1g, which is too small" in str(caught.value)
    assert "Install the driver's versions" not in str(caught.value)
    with pytest.raises(WorkerEnvironment, match="Install the driver's versions"):
        check_reports([report("a", torn)], WANTED)
