"""The package's structure, from its sources: one order of packages, cycles, heavy packages.

``python -m tools.structure`` prints the packages in their order, what each imports, and what is
against the order. A star marks what runs on executors, a plus that of which a part does.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tos_notebook.cluster.shipping import SHIPPED

ROOT = "tos_notebook"

GROUPS = {
    "What all others know": ("_version", "readable", "errors", "common", "layout", "events"),
    "Rules and formats, without threads and sockets": (
        *("wire", "persist", "steering", "chaos", "codecs", "reduction.costs"),
        *("theory.predictions", "theory.queues", "theory.exchanges", "archive", "blocks"),
        "combiners",
    ),
    "What touches the world": (
        *("transport", "reduction", "runtime", "telemetry", "cluster", "nodes", "data"),
        "inference",
        *("program.export", "program.graph", "program.module", "program.keras", "program"),
        "layers",
        "theory",
    ),
    "Who trains what, and how it is combined": (
        *("coordination", "worker", "strategies.base", "strategies.ps"),
        *(
            "strategies.allreduce",
            "strategies.treeaggregate",
            "strategies.tensorflow",
            "strategies",
        ),
        "testing",
    ),
    "A run": (
        *("training.options", "training.checkpoint", "training.results", "training.observers"),
        "training",
    ),
    "What people touch": (
        *("widgets", "lab", "tensorflowonspark", "magics", "surface", "ml", "tensorspark"),
        "scripts",
        "demo",
    ),
}

ORDER = tuple(name for group in GROUPS.values() for name in group)
"""Packages and modules of the root; each imports only from those before it.

The longest name that fits decides. A package's own modules may import each other, not in circles.
"""

PURE = ORDER[: ORDER.index("transport")]
"""These import nothing but Python's own library and NumPy."""


@dataclass(frozen=True)
class Edge:
    """Who may import a heavy package: ``anywhere``, or ``lazily``, inside functions."""

    packages: frozenset[str]
    anywhere: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()


EDGES = (
    Edge(
        frozenset({"tensorflow", "keras"}),
        # The demo stands for a user's notebook, which defines a model.
        anywhere=(
            "program",
            "runtime",
            "data.tf_data",
            "data.examples",
            "data.dataset_graph",
            "demo",
        ),
        lazily=("magics", "cluster.connect", "nodes.context", "tensorflowonspark", "data.images"),
    ),
    Edge(
        frozenset({"pyspark", "py4j", "findspark"}),
        anywhere=(
            *("cluster", "nodes.results", "data.rdd", "data.counted", "data.dataframe", "ml"),
            *("tensorflowonspark.params", "tensorflowonspark.pipeline"),
        ),
        lazily=(
            *("worker.task", "tensorspark", "tensorflowonspark", "inference", "data.examples"),
            "data.images",
            *("nodes.keeper", "nodes.sendable", "nodes.spawn", "nodes.tasks", "nodes.unpacking"),
        ),
    ),
    Edge(
        frozenset({"pandas", "plotly"}),
        lazily=("telemetry", "magics", "widgets", "demo", "training.saved", "training.predicted"),
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
    typing: bool
    """For type checkers only."""


Modules = Mapping[str, Module]
Graph = Mapping[str, set[str]]

TYPING_ONLY = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def within(name: str, prefix: str) -> bool:
    """Return whether `name` is `prefix` or a part of it."""
    return name == prefix or name.startswith(prefix + ".")


def inner(name: str) -> str:
    """Return a name without the package's own: the spelling of `ORDER` and `EDGES`."""
    return name.removeprefix(ROOT).removeprefix(".")


@cache
def package_of(name: str) -> str:
    """Return the entry of `ORDER` that a module belongs to; empty for the package's ``__init__``.

    Raises
    ------
    ValueError
        There is none.
    """
    own = inner(name)
    fitting = [entry for entry in ORDER if within(own, entry)]
    if own and not fitting:
        raise ValueError(f"{name} has no place in the order: give it one in ORDER.")
    return max(fitting, key=len, default="")


def statements(
    tree: ast.AST, lazy: bool = False, typing: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    """Yield the import statements, whether inside a function, and whether for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            # It has none, and is most of a module.
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, lazy, typing
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPING_ONLY:
            yield from statements(ast.Module(node.body, []), lazy, True)
            yield from statements(ast.Module(node.orelse, []), lazy, typing)
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(node, lazy or function, typing)


@cache
def _statements_of(source: str) -> list[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    return list(statements(ast.parse(source)))


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
    for node, lazy, typing in _statements_of(module.source):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            base = base_of(node, module)
            full = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in known else base for name in full]
        found += [Import(target, node.lineno, lazy, typing) for target in dict.fromkeys(targets)]
    return found


def against_order(module: Module, known: Modules) -> list[str]:
    """Describe the imports from a package that comes later, lazy ones and those for types too.

    The package's own ``__init__`` may import anything lazily or for types: it has the public names.
    """
    own = package_of(module.name)
    problems = []
    for found in imports(module, known):
        if not within(found.target, ROOT) or (not own and (found.lazy or found.typing)):
            continue
        target = package_of(found.target)
        later = not target or not own or ORDER.index(target) > ORDER.index(own)
        if later and own != "demo" and inner(found.target) != "_version":
            problems.append(f"{module.name}:{found.line} ({own}) imports {found.target}")
    return problems


def lies_in(name: str, prefixes: Iterable[str]) -> bool:
    """Return whether a full module name is in one of the prefixes."""
    return any(within(inner(name), prefix) for prefix in prefixes)


def misplaced(module: Module, known: Modules) -> list[str]:
    """Describe imports of heavy packages where they do not belong, and of any in a pure package."""
    problems = []
    for found in imports(module, known):
        top = found.target.split(".")[0]
        if found.typing or top == ROOT or top in sys.stdlib_module_names:
            continue
        edges = [edge for edge in EDGES if top in edge.packages]
        allowed = all(_may_import(module, found, edge) for edge in edges)
        if not allowed or (top != "numpy" and package_of(module.name) in PURE):
            problems.append(f"{module.name}:{found.line} imports {found.target}")
    return problems


def _may_import(module: Module, found: Import, edge: Edge) -> bool:
    return lies_in(module.name, edge.anywhere) or (found.lazy and lies_in(module.name, edge.lazily))


def files(known: Modules) -> Graph:
    """Return which module imports which, in any way; without the package's own ``__init__``."""
    return {
        name: {found.target for found in imports(module, known) if found.target in known} - {ROOT}
        for name, module in known.items()
        if name != ROOT
    }


def packages(known: Modules) -> Graph:
    """Return which package imports which, in any way."""
    graph: dict[str, set[str]] = {name: set() for name in ORDER}
    for name, targets in files(known).items():
        own = package_of(name)
        graph[own] |= {package_of(target) for target in targets} - {own}
    return graph


def loads(known: Modules) -> Graph:
    """Return what each module loads, at once or in functions, with the packages around it."""
    graph = {}
    for name, module in known.items():
        targets = [found.target for found in imports(module, known) if not found.typing]
        around = [name.rsplit(".", level)[0] for level in range(1, name.count(".") + 1)]
        graph[name] = {target for target in (*targets, *around) if target in known}
    return graph


def closure(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return these names, and all that can be reached from them."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def on_executors(package: str) -> str:
    """Return ``all`` or ``part`` of a package that runs on executors, or nothing."""
    if package in SHIPPED:
        return "all"
    return "part" if any(within(name, package) for name in SHIPPED) else ""


def cycle(graph: Graph) -> list[str]:
    """Return the names along one cycle, or nothing."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph.get(name, ())):
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


def main() -> int:
    """Print the structure; return 1 if something is against it."""
    known = package_modules()
    graph = packages(known)
    marks = {"all": "*", "part": "+", "": " "}
    for name in ORDER:
        targets = sorted(graph[name], key=ORDER.index)
        print(f"{name:<18} {marks[on_executors(name)]} {', '.join(targets)}")
    problems = [problem for module in known.values() for problem in against_order(module, known)]
    circles = [" -> ".join(around) for around in (cycle(graph), cycle(files(known))) if around]
    print(
        f"\n{len(known)} modules, {len(ORDER)} packages, {sum(map(len, graph.values()))} arrows; "
        f"against the order: {len(problems)}; cycles: {len(circles)}"
    )
    print(*problems, *circles, sep="\n")
    return int(bool(problems or circles))


if __name__ == "__main__":
    sys.exit(main())
