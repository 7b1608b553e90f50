"""The JVM of an embedded Spark, by machine and container."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tos_notebook as tos
from tos_notebook.cluster import jvm

GIB = 2**30


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of 16 GiB and 8 cores, and where its container's limit is written."""
    path = tmp_path / "memory.max"
    limits = {"": (str(tmp_path), "memory.max"), "memory": (str(tmp_path / "memory"), "limit")}
    monkeypatch.setattr(jvm, "LIMITS", limits)
    monkeypatch.setattr(jvm, "GROUPS", tmp_path / "none")
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 16 * GIB // 4096, "SC_PAGE_SIZE": 4096}.get)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    return path


SMALL = "-XX:+UseSerialGC -Djdk.nio.maxCachedBufferSize=1048576"


@pytest.mark.parametrize(
    ("limit", "heap", "options"),
    [
        ("max", "2048m", None),
        (str(6 * GIB), "1536m", None),
        (str(2 * GIB), "512m", SMALL),
        (str(GIB // 2), "512m", SMALL),
    ],
)
def test_the_heap_fits_the_container(
    container: Path, limit: str, heap: str, options: str | None
) -> None:
    container.write_text(f"{limit}\n")
    found = jvm.settings()
    assert found["spark.driver.memory"] == heap
    assert found.get("spark.driver.extraJavaOptions") == options


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/user/alice\n", {"user/alice/memory.max": 2 * GIB, "memory.max": 8 * GIB}),
        ("0::/user/alice\n", {"user/alice/memory.max": 8 * GIB, "user/memory.max": 2 * GIB}),
        ("3:cpu,memory:/alice\n2:pids:/bob\n0::/\n", {"memory/alice/limit": 2 * GIB}),
        # As in a container that is told of groups which it does not see.
        ("4:memory:/docker/1f\n", {"memory/limit": 2 * GIB}),
    ],
)
def test_the_heap_fits_the_control_groups_of_this_process(
    container: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    groups: str,
    limits: dict[str, int],
) -> None:
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(jvm, "GROUPS", tmp_path / "groups")
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    assert jvm.settings()["spark.driver.memory"] == "512m"


def test_on_few_cores_the_second_compiler_comes_late(
    container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(2))
    assert jvm.settings()["spark.driver.extraJavaOptions"].split() == list(jvm.LATE_COMPILER)


def test_a_long_query_gets_the_second_compiler(spark_context: Any) -> None:
    """Without it Spark takes twenty times as long to add numbers up."""
    # The Spark of the tests does without, and starts sooner.
    java = Path(spark_context._jvm.java.lang.System.getProperty("java.home"), "bin", "java")
    options = jvm.settings().get("spark.driver.extraJavaOptions", "").split()
    flags = subprocess.check_output([java, *options, "-XX:+PrintFlagsFinal", "-version"], text=True)
    assert re.search(r"TieredStopAtLevel\s+= 4 ", flags)


def test_a_jvm_that_has_ended_is_forgotten_at_once() -> None:
    """Else a kernel that ends takes it as running, and Jupyter kills the kernel meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    sc: Any = SimpleNamespace(_gateway=SimpleNamespace(proc=process))
    before = set(threading.enumerate())
    jvm.reap(sc)
    jvm.reap(sc)
    (waiting,) = set(threading.enumerate()) - before
    assert process.stdin is not None
    process.stdin.close()
    waiting.join(30)
    assert process.returncode == 1


def test_connecting_sees_to_it(spark_context: Any) -> None:
    tos.connect(spark_context, warm_up=False)
    assert "wait-for-jvm" in [thread.name for thread in threading.enumerate()]


def test_a_jvm_of_somebody_else_is_left_alone() -> None:
    jvm.reap(SimpleNamespace(_gateway=SimpleNamespace()))  # type: ignore[arg-type]
