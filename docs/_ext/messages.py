"""Every message with which the package raises its errors, read from its sources.

A message is a template: what is only known when it is raised shows as ``⟨name⟩``, or as ``⟨…⟩``
where it has no name. No module of the package is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "tos_notebook"

USAGE = "UsageError"
"""IPython's error for a line that a magic cannot read; it is raised on purpose, too."""

GAP = "⟨…⟩"

SEVERAL = {
    "InvalidTransition": "Cannot {1} while the run is {0}: {2}",
    "PeerLost": "Expected the worker of rank {0} to take part, but it {1}",
}
"""How an error with several parameters puts them into words."""

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


@dataclass(frozen=True, order=True, slots=True)
class Message:
    """What one place of the package says.

    Parameters
    ----------
    error : str
        The class that is raised.
    text : str
        With a gap for each part that differs.
    module : str
        Its dotted name within the package.
    line : int
        From 1.
    """

    error: str
    text: str
    module: str
    line: int

    @property
    def is_known(self) -> bool:
        """Whether it has words of its own, and not only those of another error."""
        fixed = "".join(part.partition("⟩")[2] for part in f"⟩{self.text}".split("⟨"))
        return any(character.isalpha() for character in fixed)


@dataclass(frozen=True, slots=True)
class Place:
    """What is known where an expression stands: the assignments that it may refer to.

    Parameters
    ----------
    line : int
    local : dict
        Of its function: what each name was set to, with the line.
    constants : dict
        Of its module.
    """

    line: int
    local: Mapping[str, list[tuple[int, ast.expr]]] = field(default_factory=dict)
    constants: Mapping[str, list[tuple[int, ast.expr]]] = field(default_factory=dict)

    def value(self, name: str) -> ast.expr | None:
        """Return what a name was set to last before this line; a constant, wherever."""
        before = [value for line, value in self.local.get(name, []) if line < self.line]
        if before:
            return before[-1]
        return self.constants[name][-1][1] if name in self.constants else None


def error_classes() -> list[str]:
    """Return the names of the classes of errors in ``errors.py``, in their order."""
    kinds: list[str] = []
    for node in _parsed()["errors"].body:
        if isinstance(node, ast.ClassDef):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            if node.name == "TosError" or bases & set(kinds):
                kinds.append(node.name)
    return kinds


@cache
def messages() -> tuple[Message, ...]:
    """Return what the package says when it raises, each text once for a class, sorted."""
    first: dict[tuple[str, str], Message] = {}
    for module, tree in _parsed().items():
        for call, kinds, place in _made(tree):
            text = _said(kinds[0], call, place)
            for kind in kinds:
                first.setdefault((kind, text), Message(kind, text, module, call.lineno))
    return tuple(sorted(first.values()))


def raised() -> Iterator[tuple[str, int, str]]:
    """Return module, line and what is raised, of every ``raise`` with something behind it.

    An error of the package, or a function that returns one, is named by its class.
    """
    returns = _returned()
    for module, tree in _parsed().items():
        made = {id(call): kinds for call, kinds, _ in _made(tree)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Raise) or node.exc is None:
                continue
            called = isinstance(node.exc, ast.Call)
            name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            known = made.get(id(node.exc), [returns.get(name.rpartition(".")[2], "")])[0]
            yield module, node.lineno, known or (f"{name}()" if called else name)


@cache
def _parsed() -> dict[str, ast.Module]:
    """Return the package's modules by their dotted names within it."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def _returned() -> dict[str, str]:
    """Return the functions that make an error, with its class, as their annotations say."""
    kinds, found = set(error_classes()), {}
    for tree in _parsed().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                name = ast.unparse(node.returns)
                if name in kinds | {USAGE}:
                    found[node.name] = name
    return found


def _made(tree: ast.Module) -> Iterator[tuple[ast.Call, list[str], Place]]:
    """Find the calls that make an error: the classes that it may be of, and where it stands."""
    scopes = _scopes(tree)
    kinds = {*error_classes(), USAGE} & _names(node for nodes in scopes.values() for node in nodes)
    if not kinds:
        return
    constants = _assigned(scopes[tree])
    for scope, nodes in scopes.items():
        local = {} if scope is tree else _assigned(nodes)
        for node in nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            place = Place(node.lineno, local, constants)
            if node.func.id in kinds:
                yield node, [node.func.id], place
                continue
            value = place.value(node.func.id)
            if isinstance(value, ast.IfExp):
                either = [ast.unparse(value.body), ast.unparse(value.orelse)]
                if set(either) <= kinds:
                    yield node, either, place


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return what a module imports or defines, by the names that it has there."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
    return found


def _scopes(tree: ast.Module) -> dict[Scope, list[ast.AST]]:
    """Return what is in a module and in each of its functions, but not in functions inside."""
    found: dict[Scope, list[ast.AST]] = {tree: []}
    waiting: list[tuple[ast.AST, Scope]] = [(tree, tree)]
    while waiting:
        outer, scope = waiting.pop()
        for node in ast.iter_child_nodes(outer):
            found[scope].append(node)
            if isinstance(node, Scope):
                found[node] = []
            waiting.append((node, node if isinstance(node, Scope) else scope))
    return found


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[tuple[int, ast.expr]]]:
    found: dict[str, list[tuple[int, ast.expr]]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append((node.lineno, node.value))
    return {name: sorted(values, key=lambda pair: pair[0]) for name, values in found.items()}


def _said(kind: str, call: ast.Call, place: Place) -> str:
    texts = [_text(argument, place) for argument in call.args]
    if kind in SEVERAL and len(texts) > 1:
        return SEVERAL[kind].format(*texts)
    return " ".join(texts[0].split()) if texts else GAP


def _text(node: ast.expr, place: Place) -> str:
    """Return an expression as a template."""
    match node:
        case ast.Constant(value=str() | int() | float() as value):
            return str(value)
        case ast.JoinedStr():
            return "".join(_text(value, place) for value in node.values)
        case ast.FormattedValue(value=ast.Name(id=name)) if name.isupper():
            return _text(node.value, place)
        case ast.FormattedValue():
            return _gap(node.value)
        case ast.BinOp(op=ast.Add()):
            return _text(node.left, place) + _text(node.right, place)
        case ast.Name(id=name):
            value = place.value(name)
            # Looked up from where it was set, so that a name that is set twice comes to an end.
            before = Place(getattr(value, "lineno", 0), place.local, place.constants)
            return _gap(node) if value is None else _text(value, before)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join")):
            return _joined(between, node.args[0], place)
        case _:
            return _gap(node)


def _joined(between: str, parts: ast.expr, place: Place) -> str:
    """Return what ``between.join(parts)`` makes: one of the parts, if all are made alike."""
    match parts:
        case ast.Starred(value=several):
            return _joined(between, several, place)
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
            return _text(part, place) if isinstance(part, ast.JoinedStr) else GAP
        case ast.List(elts=[ast.Starred() as first, last]):
            return _joined(between, first, place) + between + _text(last, place)
        case ast.Name(id=name) if (value := place.value(name)) is not None:
            return _joined(between, value, place)
        case _:
            return GAP


def _gap(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"⟨{name.strip('_').lower()}⟩"
        case _:
            return GAP
