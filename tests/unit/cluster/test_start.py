"""Sparks that connect() starts itself, each in a process of its own, with a stub TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import tos_notebook
from tos_notebook.cluster import jvm

ROOT = str(Path(tos_notebook.__file__).parents[1])

CLUSTER = """
import json, os, sys
sys.path.insert(0, os.environ["DRIVER_ONLY"])
from tos_notebook.cluster.connect import connect
from dataclasses import asdict
from tos_notebook.cluster.executors import contact_host, executor_of, slots
from tos_notebook.cluster.shipping import ship_package
from tos_notebook.cluster.summary import summary

spark = connect("local-cluster[2,1,1024]", config={"spark.ui.enabled": "false"})
sc = spark.sparkContext
gate = sc._temp_dir + "/gate"
os.mkfifo(gate)

def report(_):
    import tos_notebook
    from pyspark import TaskContext
    with open(gate, "w") as pipe:
        pipe.write(f"{TaskContext.get().taskAttemptId()}\\n")
        pipe.flush()
        with open(gate + "-leave") as leave:
            leave.read()
    yield tos_notebook.__file__

import threading
os.mkfifo(gate + "-leave")
found = {}
def job():
    found["files"] = sc.parallelize(range(1), 1).mapPartitions(report).collect()
thread = threading.Thread(target=job)
thread.start()
with open(gate) as pipe:
    task = int(pipe.readline())
    found["executor"], found["host"] = executor_of(sc, task)
    found["unknown"] = executor_of(sc, 10**6)
    with open(gate + "-leave", "w") as leave:
        leave.write("go")
thread.join()
ship_package(sc)
found["slots"] = slots(sc)
found["summary"] = asdict(summary(sc))
found["contact"] = contact_host(sc)
found["shipped"] = sc._python_includes
print(json.dumps(found))
spark.stop()
"""

LOCAL = """
import gc, json, os, sys, threading
from tos_notebook.cluster.connect import connect
from tos_notebook.errors import WorkerEnvironment

try:
    connect("local[1]", config={"spark.ui.enabled": "false"})
except WorkerEnvironment as error:
    message = str(error)
os.remove(sys.argv[1])
spark = connect("local[2]", config={"spark.ui.enabled": "false"})
sc = spark.sparkContext
ready = "tensorflow" in sys.modules and gc.isenabled()
importing = [thread.name for thread in threading.enumerate() if thread.name == "tos-import"]
keys = ("spark.driver.memory", "spark.ui.showConsoleProgress", "spark.log.level")

def report(_):
    import os, sys
    yield os.getpid(), sys.modules["tensorflow"].imported_by

found = {
    "message": message,
    "ready": ready,
    "importing": importing,
    "conf": [sc.getConf().get(key) for key in keys],
    "workers": sc.parallelize(range(2), 2).mapPartitions(report).collect(),
}
os.write(2, b"Spark is up.\\n")
try:
    sc.parallelize(range(2), 2).map(lambda n: 1 // n).collect()
except Exception as error:
    found["raised"] = type(error).__name__
spark.stop()
print(json.dumps(found))
"""
"""TensorFlow cannot be imported until it removes the file that it is given."""

HIDE_EDITABLE = f"""
import sys
sys.path[:] = [p for p in sys.path if p != {ROOT!r}]
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__module__", "")]
"""
"""An editable installation would let the workers find the package after all."""


def run(program: str, folder: Path, tensorflow: str, *found: str) -> tuple[Any, str]:
    """Run a program elsewhere, whose workers find a stub TensorFlow and `found`, but nothing else.

    Returns
    -------
    said : object
        The last line of its output, from JSON.
    errors : str
        Its standard error.
    """
    stubs = folder / "stubs"
    stubs.mkdir()
    (stubs / "sitecustomize.py").write_text("" if found else HIDE_EDITABLE)
    for name, source in (
        ("tensorflow", tensorflow),
        ("keras", f"__version__={version('keras')!r}"),
    ):
        (stubs / name).mkdir(parents=True)
        (stubs / name / "__init__.py").write_text(source)
    hidden = ("SPARK_HOME", "SPARK_MASTER", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / BROKEN)],
        cwd=folder,
        env=env | {"PYTHONPATH": os.pathsep.join([str(stubs), *found]), "DRIVER_ONLY": ROOT},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


BROKEN = "broken"
"""A file: while it is there, TensorFlow cannot be imported."""

STUB = f"""
import os
from unittest.mock import MagicMock

imported_by = os.getpid()
__version__ = {version("tensorflow")!r}
config = MagicMock()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(CLUSTER, tmp_path_factory.mktemp("cluster"), STUB)[0]


def test_executors_that_lack_this_package_are_sent_it_once(cluster: Any) -> None:
    assert "tos_notebook.zip" in cluster["files"][0]
    assert cluster["shipped"] == ["tos_notebook.zip"]


def test_a_running_tasks_executor_is_found(cluster: Any) -> None:
    assert cluster["executor"] in ("0", "1")
    assert cluster["host"] == cluster["contact"]
    assert cluster["unknown"] == ["?", "?"]


def test_executors_and_their_slots_are_counted(cluster: Any) -> None:
    assert cluster["slots"] == 2
    found = cluster["summary"]
    assert (found["executors"], found["tasks"], found["cores"]) == (2, 2, 2)
    assert not found["local"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str]:
    folder = tmp_path_factory.mktemp("local")
    broken = folder / BROKEN
    broken.touch()
    test = f"if os.path.exists({str(broken)!r}): raise ImportError('no AVX here')"
    return run(LOCAL, folder, f"import os\n{test}\n{STUB}", ROOT)


def test_workers_without_tensorflow_are_named_with_the_way_out(local: tuple[Any, str]) -> None:
    assert "cannot import tensorflow (ImportError: no AVX here)" in local[0]["message"]
    assert "PYSPARK_PYTHON" in local[0]["message"]


def test_what_failed_to_warm_up_is_stopped_so_that_another_start_is_possible(
    local: tuple[Any, str],
) -> None:
    """The second connect, to another master, would be refused otherwise."""
    assert local[0]["conf"] == [jvm.settings()["spark.driver.memory"], "false", "ERROR"]


def test_local_workers_share_one_import_of_tensorflow(local: tuple[Any, str]) -> None:
    workers, imported_by = zip(*local[0]["workers"], strict=True)
    assert len(set(imported_by)) == 1
    assert not set(imported_by) & set(workers)


def test_the_driver_has_imported_tensorflow_when_spark_is_up(local: tuple[Any, str]) -> None:
    assert local[0]["ready"]
    assert local[0]["importing"] == []


def test_a_failed_task_says_so_by_its_exception_only(local: tuple[Any, str]) -> None:
    said, errors = local
    assert said["raised"] == "PythonException"
    assert errors.partition("Spark is up.\n")[2] == ""
