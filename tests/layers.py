"""Checkers of the package's structure, from its sources: layers, cycles, heavy packages."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = "tos_notebook"

LAYERS = {
    "errors": 0, "config": 0, "content": 0, "events": 0, "params": 0, "readable": 0,
    "stderr": 0, "temporary": 0,
    "_version": 0,
    "checkpoint.format": 1, "checkpoint.values": 1, "checkpoint.made": 1,
    "wire": 1, "chaos": 1, "combiners": 1, "codecs": 1, "control": 1, "data.idx": 1,
    "ps.ledger": 1, "ps.contents": 1,
    "program.spec": 1, "sync": 1, "theory": 1, "every": 1, "stop": 1,
    "status": 1, "restarts": 1,
    "ps.store": 2, "transport": 2, "program": 2, "data": 2, "cluster": 2,
    "worker": 2, "telemetry": 2, "testing": 2, "inference": 2,
    "checkpoint": 3, "settings": 3, "mirror": 3, "training": 3, "answers": 3, "snapshots": 3,
    "state": 3, "roster": 3, "server": 3, "watchdog": 3, "standstill": 3, "legs": 3, "saved": 3,
    "companions": 3, "outputs": 3,
    "launch": 3, "session": 3, "run": 3, "tensorspark": 3, "ml": 3,
    "magics": 4, "widgets": 4, "lab": 4, "demo": 4, "workshop": 4,
}  # fmt: skip
"""Of modules and packages; the longest name that fits decides."""


@dataclass(frozen=True)
class Edge:
    """Who may import a heavy package: ``anywhere``, or ``lazily``, inside functions."""

    packages: frozenset[str]
    anywhere: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()


EDGES = (
    # The demo stands for a user's notebook, which defines a model.
    Edge(frozenset({"tensorflow", "keras"}), anywhere=("program", "demo"), lazily=("magics",)),
    Edge(
        frozenset({"pyspark", "py4j", "findspark"}),
        anywhere=("cluster", "data.rdd", "data.frames", "ml"),
        lazily=("worker.task", "tensorspark", "inference"),
    ),
    Edge(
        frozenset({"pandas", "plotly"}),
        lazily=("telemetry", "magics", "widgets", "demo", "saved"),
    ),
    Edge(frozenset({"tensorboard"}), lazily=("telemetry", "magics")),
    Edge(frozenset({"mlflow"}), lazily=("telemetry",)),
    Edge(frozenset({"cryptography"}), lazily=("transport.tls",)),
    Edge(frozenset({"IPython", "ipywidgets", "anywidget"}), anywhere=("magics", "widgets", "lab")),
)


@dataclass(frozen=True)
class Module:
    """A module's source, by its full name."""

    name: str
    source: str
    is_package: bool = False


@dataclass(frozen=True)
class Import:
    """One import, resolved to a module or package name."""

    target: str
    line: int
    lazy: bool
    """Inside a function, so not executed when the module is loaded."""


Modules = Mapping[str, Module]

TYPING_ONLY = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def within(name: str, prefix: str) -> bool:
    """Whether `name` is `prefix` or lies in it."""
    return name == prefix or name.startswith(prefix + ".")


def inner(name: str) -> str:
    """Return a name without the package's own: the spelling of `LAYERS` and `EDGES`."""
    return name.removeprefix(ROOT).removeprefix(".")


def lies_in(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a full module name lies in one of the prefixes."""
    return any(within(inner(name), prefix) for prefix in prefixes)


def nodes(tree: ast.AST, lazy: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the import statements that are executed, and whether inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, lazy
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPING_ONLY:
            for branch in node.orelse:
                yield from nodes(ast.Module([branch], []), lazy)
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from nodes(node, lazy or function)


def base_of(node: ast.ImportFrom, module: Module) -> str:
    """Return the absolute name of what stands between ``from`` and ``import``."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def imports(module: Module, known: Modules) -> list[Import]:
    """Resolve all imports of a module: names of known modules, or whole third-party names."""
    found = []
    for node, lazy in nodes(ast.parse(module.source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            assert isinstance(node, ast.ImportFrom)
            base = base_of(node, module)
            full = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in known else base for name in full]
        found += [Import(target, node.lineno, lazy) for target in dict.fromkeys(targets)]
    return found


def layer_range(name: str, is_package: bool) -> tuple[int, int]:
    """Return the lowest and highest layer that a module, or what a package holds, belongs to.

    Loading a part loads its package's ``__init__`` first, so the ``__init__`` has to keep to the
    lowest layer of its parts; whoever imports from the package may get the highest.
    """
    own = inner(name)
    prefixes = [prefix for prefix in LAYERS if within(own, prefix)]
    layers = [LAYERS[max(prefixes, key=len)]] if prefixes else []
    if is_package:
        layers += [at for part, at in LAYERS.items() if not own or within(part, own)]
    if not layers:
        raise AssertionError(f"{name} has no layer: give it one in LAYERS.")
    return min(layers), max(layers)


def upward(module: Module, known: Modules) -> list[str]:
    """Describe the imports that go to a higher layer. An ``__init__`` may do so lazily."""
    own, _ = layer_range(module.name, module.is_package)
    problems = []
    for found in imports(module, known):
        if not within(found.target, ROOT) or (module.is_package and found.lazy):
            continue
        target = known.get(found.target, Module(found.target, ""))
        _, highest = layer_range(target.name, target.is_package)
        if highest > own:
            problems.append(
                f"{module.name}:{found.line} (L{own}) imports {found.target} (L{highest})"
            )
    return problems


def misplaced(module: Module, known: Modules) -> list[str]:
    """Describe imports of heavy packages, and of any but numpy in the two lowest layers."""
    low = layer_range(module.name, module.is_package)[0] <= 1
    problems = []
    for found in imports(module, known):
        top = found.target.split(".")[0]
        if top == ROOT or top in sys.stdlib_module_names:
            continue
        edges = [edge for edge in EDGES if top in edge.packages]
        allowed = all(may_import(module, found, edge) for edge in edges)
        if not allowed or (low and top != "numpy" and not (module.is_package and found.lazy)):
            problems.append(f"{module.name}:{found.line} imports {found.target}")
    return problems


def may_import(module: Module, found: Import, edge: Edge) -> bool:
    """Whether a heavy package may be imported here."""
    return lies_in(module.name, edge.anywhere) or (found.lazy and lies_in(module.name, edge.lazily))


def cycle(known: Modules) -> list[str]:
    """Return the names along one cycle of imports executed at loading, or nothing."""
    graph = {
        name: [i.target for i in imports(module, known) if not i.lazy and i.target in known]
        for name, module in known.items()
    }
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in graph[name]:
            if around := visit(target, [*path, name]):
                return around
        done.add(name)
        return []

    return next((around for name in graph if (around := visit(name, []))), [])


def package_modules() -> dict[str, Module]:
    """Read the package's sources."""
    root = Path(__file__).parents[1]
    found = {}
    for path in sorted((root / ROOT).rglob("*.py")):
        is_package = path.name == "__init__.py"
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Module(name, path.read_text(encoding="utf-8"), is_package)
    return found
