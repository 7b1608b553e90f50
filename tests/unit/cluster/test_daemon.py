"""The daemon that forks the workers of a Spark on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tos_notebook.cluster.daemon import without_zip_file


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, which schedules batches")
def test_workers_do_not_interrupt_the_server_when_they_wake(spark_context: Any) -> None:
    policies = spark_context.parallelize(range(2), 2).map(lambda _: os.sched_getscheduler(0))
    assert policies.collect() == [os.SCHED_BATCH] * 2


def test_workers_begin_with_tensorflow_in_them(spark_context: Any) -> None:
    found = spark_context.parallelize(range(2), 2).map(lambda _: "tensorflow" in sys.modules)
    assert found.collect() == [True, True]


def test_workers_begin_with_the_installed_pyspark_in_them(spark_context: Any) -> None:
    import pyspark

    own = str(Path(pyspark.__file__).with_name("worker.py"))
    found = spark_context.parallelize(range(2), 2).map(
        lambda _: sys.modules["pyspark.worker"].__file__
    )
    assert found.collect() == [own] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, which tells threads")
def test_the_daemon_runs_no_thread_that_its_forks_would_lack(spark_context: Any) -> None:
    found = spark_context.parallelize(range(2), 2).map(
        lambda _: sum(1 for _ in Path(f"/proc/{os.getppid()}/task").iterdir())
    )
    assert found.collect() == [1, 1]


def test_of_the_search_path_only_the_zip_file_of_an_installed_pyspark_is_left_out() -> None:
    lib, other = "/packages/pyspark/python/lib", "/opt/spark/python/lib/pyspark.zip"
    path = ["", f"{lib}/pyspark.zip", f"{lib}/py4j-src.zip", other, "/packages"]
    assert without_zip_file(path) == ["", f"{lib}/py4j-src.zip", other, "/packages"]
    assert without_zip_file(path[:-1]) == path[:-1]


def test_temporary_files_of_workers_lie_in_a_folder_of_their_daemon(spark_context: Any) -> None:
    folders = spark_context.parallelize(range(2), 2).map(lambda _: tempfile.gettempdir()).collect()
    assert Path(folders[0]).name.startswith("tos-workers-")
    assert folders[0] == folders[1]


FORKING = """
import os, sys, tempfile
from tos_notebook.cluster.daemon import own_temporary_folder
own_temporary_folder()
worker = os.fork()
handle, name = tempfile.mkstemp()
if worker == 0:
    sys.exit()
os.waitpid(worker, 0)
print(name, os.path.exists(name))
"""


KILLED = """
import os, signal, tempfile
from tos_notebook.cluster.daemon import own_temporary_folder
own_temporary_folder()
print(tempfile.gettempdir(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_daemon_that_was_killed_goes_with_the_next_one(tmp_path: Path) -> None:
    def daemon(code: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        ).stdout.strip()

    left = Path(daemon(KILLED))
    assert left.parent == tmp_path
    assert left.exists()
    daemon(FORKING)
    assert not left.exists()


def test_they_go_with_the_daemon_and_not_with_one_worker() -> None:
    command = [sys.executable, "-c", FORKING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    name, existed = done.stdout.split()
    assert existed == "True"
    assert not Path(name).parent.exists()
