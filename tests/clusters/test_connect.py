"""What ``connect`` says of executors on which something is missing, on a real cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import application
from tests.clusters.standalone import Standalone
from tests.unit.cluster.test_start import HIDE_EDITABLE
from tests.unit.data.idx_files import write_stripes
from tools.structure import inner, within
from tos_notebook import __version__
from tos_notebook.cluster.shipping import SHIPPED

PROGRAM = Path(__file__).with_name("connect_program.py")
ROWS = 300
EVERYTHING = Path(__file__).with_name("shipped_program.py")


@pytest.fixture(scope="module")
def said(standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What was said for each of the program's attempts, with two executors on one host."""
    folder = tmp_path_factory.mktemp("connect")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
    versions = {name: version(name) for name in ("numpy", "tensorflow")}
    for name, found in {**versions, "tos_notebook": "0.0.1"}.items():
        (folder / "stubs" / name).mkdir(parents=True)
        (folder / "stubs" / name / "__init__.py").write_text(f"__version__ = {found!r}\n")
    settings = {
        "spark.master": standalone.master,
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
    }
    arguments = [str(folder / "bare/bin/python"), str(folder / "stubs")]
    lines = application.run(PROGRAM, *arguments, folder=folder, settings=settings)
    return json.loads(lines[-1])


def test_a_host_without_packages_is_named_once_with_all_that_it_lacks(
    said: dict[str, list[str]],
) -> None:
    """But not with this package, which it was sent."""
    kind, host, advice = said["bare"]
    assert kind == "WorkerEnvironment"
    assert re.fullmatch(
        r"Host \S+: \S+/bare/bin/python cannot import numpy \(ModuleNotFoundError: .*\); "
        r"\S+/bare/bin/python cannot import tensorflow \(ModuleNotFoundError: .*\)\.",
        host,
    )
    assert "PYSPARK_PYTHON" in advice


def test_another_version_of_this_package_is_named(said: dict[str, list[str]]) -> None:
    kind, host, advice = said["old"]
    assert kind == "WorkerEnvironment"
    assert host.endswith(f": tos_notebook is 0.0.1, but the driver has {__version__}.")
    assert "--ship-package" in advice


def test_what_is_shipped_takes_the_place_of_what_is_installed(said: dict[str, list[str]]) -> None:
    assert said["shipped"] == []


@pytest.fixture(scope="module")
def shipped(standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What executors did that have this package from nowhere else: rows by step, and modules."""
    folder = tmp_path_factory.mktemp("shipped")
    for name in ("data", "hidden"):
        (folder / name).mkdir()
    (folder / "hidden" / "sitecustomize.py").write_text(HIDE_EDITABLE)
    write_stripes(folder / "data", train=ROWS, test=1)
    settings = {
        "spark.master": standalone.master,
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.executorEnv.PYTHONPATH": str(folder / "hidden"),
    }
    lines = application.run(EVERYTHING, str(folder / "data"), folder=folder, settings=settings)
    return json.loads(lines[-1])


def test_what_is_shipped_does_all_that_executors_do(shipped: Any) -> None:
    twice, dataset = {"resumed": 2 * ROWS}, {"dataset": 100}
    assert shipped["rows"] == dict.fromkeys(shipped["rows"], ROWS) | twice | dataset


def test_executors_use_all_that_is_shipped_and_nothing_else(shipped: Any) -> None:
    loaded = shipped["loaded"]
    assert [file for file in loaded.values() if "tos_notebook.zip" not in file] == []
    parts = {entry for entry in SHIPPED for name in loaded if within(inner(name), entry)}
    assert parts == set(SHIPPED)


def test_an_address_of_the_driver_that_executors_do_not_reach_is_named(
    said: dict[str, list[str]],
) -> None:
    kind, host = said["unreached"]
    assert kind == "ClusterUnreachable"
    assert re.search(r"does not reach the driver at no-such-host\.invalid:\d+ \(gaierror", host)
    assert "set server_host (spark.tos.server.host)" in host
