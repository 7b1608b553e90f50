"""The daemon that forks the workers of a Spark on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, which schedules batches")
def test_workers_do_not_interrupt_the_server_when_they_wake(spark_context: Any) -> None:
    policies = spark_context.parallelize(range(2), 2).map(lambda _: os.sched_getscheduler(0))
    assert policies.collect() == [os.SCHED_BATCH] * 2


def test_workers_begin_with_tensorflow_in_them(spark_context: Any) -> None:
    found = spark_context.parallelize(range(2), 2).map(lambda _: "tensorflow" in sys.modules)
    assert found.collect() == [True, True]


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
