"""Imports go down the layers, never round in circles, and heavy packages stay at their edge."""

from __future__ import annotations

import pytest

from tests.layers import ROOT, Module, cycle, misplaced, package_modules, upward

PACKAGE = package_modules()


def test_the_package_is_found() -> None:
    assert f"{ROOT}.telemetry.bus" in PACKAGE
    assert PACKAGE[f"{ROOT}.telemetry"].is_package


def test_imports_go_to_the_same_or_a_lower_layer() -> None:
    found = {name: upward(module, PACKAGE) for name, module in PACKAGE.items()}
    assert {name: imports for name, imports in found.items() if imports} == {}


def test_heavy_packages_are_imported_at_their_edge_only() -> None:
    found = {name: misplaced(module, PACKAGE) for name, module in PACKAGE.items()}
    assert {name: imports for name, imports in found.items() if imports} == {}


def test_no_module_imports_itself_through_others() -> None:
    assert cycle(PACKAGE) == []


def example(name: str, source: str = "") -> Module:
    return Module(f"{ROOT}.{name}".rstrip("."), source, is_package=name in ("", "ps", "data"))


NAMES = (
    ["", "errors", "control", "ps", "ps.ledger", "ps.store", "data", "data.idx", "data.rdd"],
    ["server", "worker.task", "telemetry.figure", "program.graph", "demo"],
)
KNOWN = {module.name: module for names in NAMES for module in map(example, names)}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("control", "from . import server"),
        ("control", "from .server import Server"),
        ("control", "import tos_notebook.server"),
        ("control", "from tos_notebook import server"),
        ("control", "def f():\n    from .server import Server"),
        ("control", "try:\n    from .ps import store\nexcept ImportError:\n    pass"),
        ("control", "if not TYPE_CHECKING:\n    from . import server"),
        ("control", "class A:\n    from .ps.store import Store"),
        ("ps.ledger", "from .store import Store"),
        ("ps.ledger", "from . import store"),
        ("ps.ledger", "from ..ps import lazily_exported_name"),
        ("ps", "from .store import Store"),
        ("data", "from .rdd import RddSource"),
        ("server", "from . import lazily_exported_name"),
        ("server", "import tos_notebook"),
        ("", "from .server import Server"),
    ],
)
def test_an_upward_import_is_found(name: str, source: str) -> None:
    assert upward(example(name, source), KNOWN)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("server", "from . import control\nfrom .ps.store import Store"),
        ("ps.store", "from .ledger import Ledger\nfrom ..errors import TosError"),
        ("ps.store", "from ..data.rdd import RddSource"),
        ("ps", "from .ledger import Ledger"),
        ("ps", "def __getattr__(name):\n    from .store import Store"),
        ("control", "if TYPE_CHECKING:\n    from .server import Server"),
        ("control", "if typing.TYPE_CHECKING:\n    from .server import Server"),
        ("demo", "import tos_notebook as tos"),
        ("", "def __getattr__(name):\n    from .server import Server"),
    ],
)
def test_a_downward_lazy_or_typing_import_is_fine(name: str, source: str) -> None:
    assert upward(example(name, source), KNOWN) == []


def test_a_module_without_a_layer_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no layer"):
        upward(example("novelty", ""), KNOWN)


def test_else_of_a_typing_block_is_executed_and_counts() -> None:
    source = "if TYPE_CHECKING:\n    pass\nelse:\n    from .server import Server"
    assert upward(example("control", source), KNOWN)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("server", "import tensorflow as tf"),
        ("server", "def f():\n    import keras"),
        ("telemetry.figure", "import plotly.graph_objects as go"),
        ("telemetry.figure", "from pandas import DataFrame"),
        ("server", "def f():\n    import pandas"),
        ("worker.task", "from pyspark import TaskContext"),
        ("data", "import pyspark"),
        ("data.blocks", "import pyspark"),
        ("worker.loop", "def f():\n    from IPython import get_ipython"),
        ("control", "import msgpack"),
        ("control", "def f():\n    import msgpack"),
        ("data.idx", "import sklearn"),
    ],
)
def test_a_misplaced_package_is_found(name: str, source: str) -> None:
    assert misplaced(example(name, source), KNOWN)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("program.graph", "import tensorflow as tf\nfrom keras import Model"),
        ("telemetry.figure", "def f():\n    import plotly.graph_objects as go"),
        ("telemetry.figure", "if TYPE_CHECKING:\n    import pandas as pd"),
        ("worker.task", "def f():\n    from pyspark import TaskContext"),
        ("data.rdd", "from pyspark import RDD"),
        ("control", "import json\nimport numpy as np\nfrom numpy import typing"),
        ("worker.loop", "import msgpack"),
    ],
)
def test_a_package_at_its_edge_is_fine(name: str, source: str) -> None:
    assert misplaced(example(name, source), KNOWN) == []


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"a": "from . import b", "b": "from . import a"}, 3),
        ({"a": "from .b import x", "b": "from .c import x", "c": "import tos_notebook.a"}, 4),
        ({"a": "from . import b", "b": "def f():\n    from . import a"}, 0),
        ({"a": "from . import b, c", "b": "from . import c", "c": ""}, 0),
        ({"a": "from . import a"}, 2),
    ],
    ids=["two", "three", "lazy", "diamond", "self"],
)
def test_a_cycle_is_found(sources: dict[str, str], expected: int) -> None:
    assert len(cycle({m.name: m for m in (example(n, s) for n, s in sources.items())})) == expected
