"""Recognise TF1-style code before it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

BUILDERS = frozenset({"placeholder", "placeholder_with_default", "Session", "InteractiveSession"})
"""What only code for a graph calls."""

RESET = "reset_default_graph"


def fresh_graph() -> Any:
    """Return a new graph as a context manager in which it is the default."""
    import tensorflow as tf

    return tf.Graph().as_default()


def is_graph_code(tree: ast.AST, namespace: Mapping[str, Any]) -> bool:
    """Tell whether a cell builds a TF1-style graph.

    It does if it makes a placeholder or a session of TensorFlow's, itself or by a function of
    the notebook's that it mentions; or if it uses ``tf.compat.v1`` and not Keras.

    Parameters
    ----------
    tree : ast.AST
    namespace : mapping of str
        The notebook's.
    """
    origins = _origins(tree, namespace)
    paths = [path for path in _paths(tree, origins) if path.split(".")[0] == "tensorflow"]
    if any(path.rsplit(".", 1)[-1] in BUILDERS for path in paths):
        return True
    if any(_builds(namespace.get(name)) for name in names(tree)):
        return True
    keras = any("keras" in path for path in (*paths, *origins.values()))
    return not keras and any("compat.v1." in f"{path}." for path in paths)


def without_resets(tree: ast.Module) -> ast.Module:
    """Drop statements ``tf.reset_default_graph()``: the cell gets a fresh graph anyway.

    TensorFlow refuses them inside ``with graph.as_default()``.
    """
    tree.body = [node for node in tree.body if not _is_reset(node)]
    return tree


def _is_reset(node: ast.stmt) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    return getattr(function, "attr", getattr(function, "id", "")) == RESET


def _origins(tree: ast.AST, namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return what names stand for: dotted paths of the modules that the cell reads or imports."""
    found = {}
    for name in names(tree) & namespace.keys():
        value = namespace[name]
        if isinstance(value, ModuleType):
            found[name] = value.__name__
        elif str(getattr(value, "__module__", "")).startswith("tensorflow"):
            found[name] = f"tensorflow.{getattr(value, '__name__', '')}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                found[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def _paths(tree: ast.AST, origins: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in origins:
            yield ".".join([origins[node.id], *reversed(parts)])


def names(tree: ast.AST, context: type[ast.expr_context] = ast.Load) -> set[str]:
    """Return the names that code reads, or binds in the context `ast.Store`."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in found if isinstance(node.ctx, context)}


def _builds(value: Any) -> bool:
    return isinstance(value, FunctionType) and "placeholder" in set(_attributes(value.__code__))


def _attributes(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _attributes(constant)
