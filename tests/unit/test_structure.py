"""Packages stand in one order and import only those before; heavy packages stay at their edge."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tools.structure import (
    ORDER,
    ROOT,
    Module,
    against_order,
    cycle,
    files,
    inner,
    lies_in,
    misplaced,
    package_modules,
    package_of,
    packages,
)

PACKAGE = package_modules()


def test_the_package_is_found() -> None:
    assert f"{ROOT}.telemetry.bus" in PACKAGE
    assert PACKAGE[f"{ROOT}.telemetry"].is_package


def test_a_package_imports_only_those_before_it_in_the_order() -> None:
    assert [p for module in PACKAGE.values() for p in against_order(module, PACKAGE)] == []


def test_every_module_belongs_to_the_order_and_the_order_holds_nothing_else() -> None:
    assert {package_of(name) for name in PACKAGE} == {"", *ORDER}


def test_heavy_packages_are_imported_at_their_edge_only() -> None:
    assert [p for module in PACKAGE.values() for p in misplaced(module, PACKAGE)] == []


def test_no_package_and_no_module_imports_itself_through_others() -> None:
    assert cycle(packages(PACKAGE)) == []
    assert cycle(files(PACKAGE)) == []


def test_the_root_stays_small_and_each_folder_says_what_it_is_for() -> None:
    root = [
        name for name, module in PACKAGE.items() if name.count(".") == 1 and not module.is_package
    ]
    assert len(root) + 1 <= 14
    folders = [module for module in PACKAGE.values() if module.is_package]
    assert [module.name for module in folders if not module.source.startswith('"""')] == []


NAMED_VALUES = {
    "of a file, in JSON": (
        *("coordination.contents.Contents.to_json", "coordination.ledger.Ledger.to_json"),
        *("training.checkpoint.contents.to_parts", "training.checkpoint.event_log.columns"),
        "training.checkpoint.folder.Folder.write",
    ),
    "a notebook's variables": (
        *("magics.connect.Connection.connect", "magics.connect.Connection.ensure"),
        "magics.connect.Connection.starts",
        *("magics.find.Names.bound", "magics.find.Names.found"),
    ),
    "arguments that a function is then called with": (
        *("magics.arguments.asked", "training.options.subset", "training.options.named"),
        *("training.options.for_resume", "training.options.option.by_own_name"),
        *("training.changed.as_commands", "training.changed.other_settings"),
    ),
    "what IPython completes": ("magics.completion.Matcher",),
    "what a strategy shows of its own": ("coordination.settings.StrategySettings.shown",),
}
"""Where names are known when the program runs, and not before; by what they are."""


def untyped(node: ast.Module | ast.ClassDef, owner: str) -> Iterator[str]:
    """Yield the public functions, fields and names for types that hand on a ``dict[str, Any]``."""
    for part in node.body:
        name, handed = getattr(part, "name", ""), ""
        if isinstance(part, ast.FunctionDef):
            handed = f"{ast.unparse(part.args)} {part.returns and ast.unparse(part.returns)}"
        elif isinstance(part, ast.AnnAssign) and isinstance(node, ast.ClassDef):
            name, handed = ast.unparse(part.target), ast.unparse(part.annotation)
        elif isinstance(part, ast.Assign):
            name, handed = ast.unparse(part.targets[0]), ast.unparse(part.value)
        if re.match(r"_(?!_)", name):
            continue
        if "dict[str, Any]" in handed:
            yield f"{owner}.{name}"
        if isinstance(part, ast.ClassDef):
            yield from untyped(part, f"{owner}.{name}")


def test_modules_hand_each_other_types_and_not_dicts_of_anything() -> None:
    watched = ("coordination", "training", "widgets", "lab", "magics")
    found = [
        name
        for module in PACKAGE.values()
        if lies_in(module.name, watched)
        for name in untyped(ast.parse(module.source), inner(module.name))
    ]
    listed = {name for names in NAMED_VALUES.values() for name in names}
    assert [name for name in found if name not in listed] == []


def test_a_dict_of_anything_is_found() -> None:
    source = (
        "Facts = dict[str, Any]\nclass A:\n x: dict[str, Any]\n def f(self) -> dict[str, Any]: ..."
    )
    assert list(untyped(ast.parse(source), "a")) == ["a.Facts", "a.A.x", "a.A.f"]
    assert list(untyped(ast.parse("def _f(x: dict[str, Any]): ..."), "a")) == []


def example(name: str, source: str = "") -> Module:
    return Module(
        f"{ROOT}.{name}".rstrip("."), source, is_package=name in ("", "strategies", "data")
    )


NAMES = (
    ["", "errors", "steering.machine", "coordination.ledger", "coordination.server", "data"],
    [
        "strategies",
        "strategies.base",
        "strategies.registry",
        "strategies.ps.center",
        "blocks.idx",
        "data.rdd",
        "worker.task",
        "demo",
    ],
    ["telemetry.figure", "program.graph.program", "training.results.card", "training.run"],
)
KNOWN = {module.name: module for names in NAMES for module in map(example, names)}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("steering.machine", "from ..coordination import server"),
        ("steering.machine", "from ..coordination.server import Server"),
        ("steering.machine", "import tos_notebook.coordination.server"),
        ("steering.machine", "from tos_notebook.coordination import server"),
        ("steering.machine", "def f():\n    from ..coordination.server import Server"),
        ("steering.machine", "try:\n    from ..data import rdd\nexcept ImportError:\n    pass"),
        ("steering.machine", "if not TYPE_CHECKING:\n    from ..data import rdd"),
        ("steering.machine", "if TYPE_CHECKING:\n    from ..data import rdd"),
        ("steering.machine", "if typing.TYPE_CHECKING:\n    from ..data.rdd import RddSource"),
        ("steering.machine", "class A:\n    from ..data.rdd import RddSource"),
        ("coordination.ledger", "from ..strategies.ps.center import Center"),
        ("coordination.ledger", "from ..strategies import lazily_exported_name"),
        ("strategies.ps.center", "from ..registry import as_strategy"),
        ("training.results.card", "if TYPE_CHECKING:\n    from ..run import Run"),
        ("coordination.server", "from .. import lazily_exported_name"),
        ("coordination.server", "import tos_notebook"),
        ("", "from .coordination.server import Server"),
    ],
)
def test_an_import_against_the_order_is_found(name: str, source: str) -> None:
    assert against_order(example(name, source), KNOWN)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("coordination.server", "from ..steering import machine\nfrom .ledger import Ledger"),
        ("strategies.ps.center", "from ...errors import TosError\nfrom ..base import Strategy"),
        ("training.run", "from .results.card import card"),
        ("demo", "import tos_notebook as tos"),
        ("", "def __getattr__(name):\n    from .coordination.server import Server"),
        ("", "if TYPE_CHECKING:\n    from .coordination.server import Server"),
    ],
)
def test_an_import_from_a_package_before_is_fine(name: str, source: str) -> None:
    assert against_order(example(name, source), KNOWN) == []


def test_a_module_outside_of_the_order_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place in the order"):
        package_of(f"{ROOT}.novelty")


def test_else_of_a_typing_block_is_executed_and_counts() -> None:
    source = "if TYPE_CHECKING:\n    pass\nelse:\n    from ..data import rdd"
    assert against_order(example("steering.machine", source), KNOWN)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("coordination.server", "import tensorflow as tf"),
        ("coordination.server", "def f():\n    import keras"),
        ("telemetry.figure", "import plotly.graph_objects as go"),
        ("telemetry.figure", "from pandas import DataFrame"),
        ("coordination.server", "def f():\n    import pandas"),
        ("worker.task", "from pyspark import TaskContext"),
        ("data", "import pyspark"),
        ("data.source", "import pyspark"),
        ("worker.loop", "def f():\n    from IPython import get_ipython"),
        ("steering.machine", "import msgpack"),
        ("steering.machine", "def f():\n    import msgpack"),
        ("blocks.idx", "import sklearn"),
    ],
)
def test_a_misplaced_package_is_found(name: str, source: str) -> None:
    assert misplaced(example(name, source), KNOWN)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("program.graph.program", "import tensorflow as tf\nfrom keras import Model"),
        ("telemetry.figure", "def f():\n    import plotly.graph_objects as go"),
        ("telemetry.figure", "if TYPE_CHECKING:\n    import pandas as pd"),
        ("worker.task", "def f():\n    from pyspark import TaskContext"),
        ("data.rdd", "from pyspark import RDD"),
        ("steering.machine", "import json\nimport numpy as np\nfrom numpy import typing"),
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
        ({"a": "from . import b", "b": "def f():\n    from . import a"}, 3),
        ({"a": "from . import b", "b": "if TYPE_CHECKING:\n    from . import a"}, 3),
        ({"a": "from . import b, c", "b": "from . import c", "c": ""}, 0),
        ({"a": "from . import a"}, 2),
    ],
    ids=["two", "three", "lazy", "typing", "diamond", "self"],
)
def test_a_cycle_is_found(sources: dict[str, str], expected: int) -> None:
    known = {m.name: m for m in (example(n, s) for n, s in sources.items())}
    assert len(cycle(files(known))) == expected
