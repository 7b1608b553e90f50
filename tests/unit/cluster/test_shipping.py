"""Executors are sent what they load of this package, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.structure import ROOT, Module, closure, inner, loads, package_modules, within
from tos_notebook.cluster.shipping import SHIPPED, ship_package
from tos_notebook.strategies import STRATEGIES, as_strategy

PACKAGE = package_modules()
LOADS = loads(PACKAGE)

TAKERS = {
    *("mapPartitions", "mapPartitionsWithIndex", "flatMap", "foreachPartition", "runJob"),
    *("parallelize", "accumulator", "partitionBy", "arrow_udf", "pandas_udf", "udf"),
    *("mapInArrow", "mapInPandas", "applyInPandas"),
}
"""Methods of Spark that take functions, or objects, to the executors."""

NAMED = {
    "worker.task",  # A run hands its task to Spark.
    "strategies.treeaggregate.iteration",  # So it does with each iteration that is a job.
    # So are the sides of sharded servers.
    *("strategies.ps.shards.maker", "strategies.ps.shards.service"),
    "strategies.ps.hogwild.exchange",
    "runtime.runner",  # The probe that `connect` sends imports it, and so does the daemon.
    *("tensorspark.mnist", "tensorspark.partitioner"),  # Programs hand these to Spark.
    # The functions of nodes call these.
    *(f"tensorflowonspark.{each}" for each in ("compat", "keras_fit", "marker", "namespace")),
    "tensorflowonspark.reservation",
    "tensorflowonspark.TFManager",
}

HANDED = {
    "magics.cluster": "nodes.tasks",
    "program.keras.adapt": "inference.statistics",
    "tensorflowonspark.pipeline": "tensorflowonspark.scoring",
}
"""Modules that hand something of another one to Spark, and no function of their own."""


def hands_over(module: Module) -> bool:
    """Return whether a module calls a method that takes something to the executors."""
    calls = (node for node in ast.walk(ast.parse(module.source)) if isinstance(node, ast.Call))
    return any(getattr(call.func, "attr", "") in TAKERS for call in calls)


def shipped(name: str) -> list[str]:
    """Return which entries of the list a module belongs to."""
    return [entry for entry in SHIPPED if within(inner(name), entry)]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What executors are sent."""
    sent: list[str] = []
    folder = str(tmp_path_factory.mktemp("context"))
    sc: Any = SimpleNamespace(_python_includes=[], _temp_dir=folder, addPyFile=sent.append)
    ship_package(sc)
    return Path(sent[0])


@pytest.fixture(scope="module")
def sent(archive: Path) -> set[str]:
    """The modules in it."""
    with zipfile.ZipFile(archive) as zipped:
        names = [name.removesuffix(".py").removesuffix("/__init__") for name in zipped.namelist()]
    return {name.replace("/", ".") for name in names}


@pytest.fixture(scope="module")
def begun() -> set[str]:
    """The modules by which executors begin."""
    sides = {as_strategy(name).exchange.__module__ for name in STRATEGIES}
    handing = {name for name, module in PACKAGE.items() if hands_over(module)}
    handing -= {f"{ROOT}.{name}" for name in HANDED}
    handing |= {f"{ROOT}.{name}" for name in HANDED.values()}
    return handing | sides | {f"{ROOT}.{name}" for name in NAMED}


def test_whatever_hands_something_to_spark_is_sent(begun: set[str], sent: set[str]) -> None:
    assert begun - sent == set()


def test_what_is_sent_loads_nothing_that_is_not(sent: set[str]) -> None:
    assert closure(LOADS, sent) - sent == set()


def test_all_that_is_listed_is_loaded_there(begun: set[str]) -> None:
    assert {entry for name in closure(LOADS, begun) for entry in shipped(name)} == set(SHIPPED)


@pytest.mark.parametrize(
    "package",
    [
        *("training", "program", "coordination", "telemetry", "steering", "testing"),
        *("strategies.ps.merging", "strategies.ps.shards.commits", "strategies.registry"),
        *("magics", "widgets", "lab", "ml", "demo", "tensorspark.spark_session"),
    ],
)
def test_the_drivers_own_part_is_not_sent(package: str, sent: set[str]) -> None:
    assert f"{ROOT}.{package}" in PACKAGE
    assert not any(within(inner(name), package) for name in sent)


ALONE = """
import sys
from importlib import import_module
archive, *names = sys.argv[1:]
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__module__", "")]
sys.path.insert(0, archive)
for name in names:
    import_module(name)
ours = {n: m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "tos_notebook"}
assert set(ours) >= set(names)
assert all(file.startswith(archive) for file in ours.values()), ours
"""


def test_a_python_that_has_nothing_else_of_this_package_imports_all_of_it(
    archive: Path, sent: set[str]
) -> None:
    command = [sys.executable, "-I", "-c", ALONE, str(archive), *sorted(sent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [("rdd.mapPartitions(f)", True), ("sc.runJob(rdd, f)", True), ("map(f, range(3))", False)],
)
def test_what_takes_functions_to_executors_is_found(source: str, expected: bool) -> None:
    assert hands_over(Module("any", source)) == expected
