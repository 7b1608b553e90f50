"""The reference in Markdown: what docstrings and signatures of the package say.

A page names what it shows by Sphinx's directives, ``.. autofunction:: fit``, in a comment.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from textwrap import dedent
from typing import Any

from numpydoc.docscrape import FunctionDoc, Parameter
from sphinx.ext.autodoc.mock import undecorate

from docs._ext.rst import inline, paragraphs
from docs._ext.tables import code, table

DIRECTIVE = re.compile(
    r"^\.\. (auto\w+|currentmodule)::[ ]?([\w.]*)(?:\(\))?((?:\n +\S.*|\n(?=\n +\w))*)", re.M
)
OPTION = re.compile(r"^ +:([\w-]+):(.*)", re.M)
OURS = "tos_notebook"
SIGNATURE = 150
"""Characters; of a longer one the options are in the table below it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An object of the reference.

    Parameters
    ----------
    name : str
        As users write it.
    value : object
    level : int
        Of its heading.
    """

    name: str
    value: Any
    level: int


def reference(directives: str) -> str:
    """Return what directives show, in Markdown."""
    module, pieces = OURS, []
    for kind, name, block in DIRECTIVE.findall(directives):
        options = dict(OPTION.findall(block))
        if kind == "currentmodule":
            module = name
        elif kind == "autosummary":
            pieces += [_summaries(module, re.findall(r"^ +(\w+)$", block, re.M))]
        else:
            path = name if name.startswith(OURS) else f"{module}.{name}"
            pieces += [_described(each) for each in _shown(kind, path, options)]
    return "\n\n".join(filter(None, pieces))


def _load(path: str) -> Any:
    """Return an object by its dotted name."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        # A function may have the name of its module, which its package then hides.
        if end == len(parts) > 1:
            found = getattr(import_module(".".join(parts[:-1])), parts[-1], found)
        for part in parts[end:]:
            found = getattr(found, part)
        # What a decorator of a mocked package returns holds what it has decorated.
        return undecorate(found)
    raise LookupError(path)


def _summaries(module: str, names: Iterable[str]) -> str:
    rows = []
    for name in names:
        text = inspect.getdoc(_load(f"{module}.{name}")) or ""
        rows.append((code(f"tos.{name}"), inline(text.split("\n\n")[0])))
    return table(("Name", "What it does"), rows)


def _shown(kind: str, path: str, options: Mapping[str, str]) -> Iterator[Shown]:
    """Yield what a directive shows, in the order of the page."""
    value = _load(path)
    if kind == "automodule":
        yield from (_one(path, name, 3) for name in _members(value, options, path))
        return
    yield Shown(_public(path), value, 3)
    if "members" in options:
        for name in _members(value, options, path):
            yield Shown(f"{path.rpartition('.')[2]}.{name}", _attribute(value, name), 4)


def _one(path: str, name: str, level: int) -> Shown:
    return Shown(_public(f"{path}.{name}"), _load(f"{path}.{name}"), level)


def _public(path: str) -> str:
    """Return a name as users write it: from `tos`, if it is there."""
    top = import_module(OURS)
    short = path.rpartition(".")[2]
    if short in top.__all__:
        return f"tos.{short}"
    for module in ("combiners", "codecs", "strategies", "events", "theory", "chaos", "layers"):
        if path.startswith(f"{OURS}.{module}.") and path.count(".") == 2:
            return f"tos.{module}.{short}"
    return path.replace(f"{OURS}.blocks.partitioners", "tos.partitioners")


def _attribute(owner: type, name: str) -> Any:
    """Return a member, with properties as such."""
    value = inspect.getattr_static(owner, name)
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def _members(owner: Any, options: Mapping[str, str], path: str) -> list[str]:
    if "members" not in options:
        return []
    named = re.findall(r"\w+", options["members"])
    if named:
        return named
    hidden = set(re.findall(r"\w+", options.get("exclude-members", "")))
    if inspect.ismodule(owner):
        names = getattr(owner, "__all__", list(vars(owner)))
        homes = OURS if "imported-members" in options else path
        return [n for n in names if _is_ours(getattr(owner, n), homes) and not n.startswith("_")]
    classes = [c for c in reversed(owner.__mro__) if c.__module__.startswith(OURS)]
    names = [n for c in (classes if "inherited-members" in options else [owner]) for n in vars(c)]
    every = "undoc-members" in options
    return [
        name
        for name in dict.fromkeys(names)
        if not name.startswith("_")
        and name not in hidden
        and (every or _is_documented(_attribute(owner, name)))
        and _is_documented_kind(_attribute(owner, name))
    ]


def _is_ours(value: Any, homes: str) -> bool:
    known = inspect.isclass(value) or inspect.isroutine(value)
    return known and str(value.__module__).startswith(homes)


def _is_documented(value: Any) -> bool:
    return bool(inspect.getdoc(value)) and _is_documented_kind(value)


def _is_documented_kind(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, property)


def _described(shown: Shown) -> str:
    """Return heading, signature, text and tables of an object."""
    value = shown.value
    doc = FunctionDoc(None, doc=inspect.getdoc(value) or "")
    pieces = [f"{'#' * shown.level} {code(shown.name)}", _signature(shown)]
    pieces += [inline(" ".join(doc["Summary"])), paragraphs(doc["Extended Summary"])]
    defaults = _defaults(value)
    pieces += [_fields("Parameters", [*doc["Parameters"], *doc["Other Parameters"]], defaults)]
    pieces += [_fields("Attributes", [*doc["Attributes"], *_documented_fields(value)], {})]
    for title in ("Returns", "Yields"):
        pieces += [_returned(title, doc[title])]
    pieces += [_raised(doc["Raises"])]
    for title in ("Notes", "References", "Examples"):
        text = paragraphs(doc[title])
        pieces += [f"**{title}**\n\n{text}" if text else ""]
    return "\n\n".join(filter(None, pieces))


def _signature(shown: Shown) -> str:
    if isinstance(shown.value, property):
        return ""
    try:
        found = inspect.signature(shown.value)
    except (TypeError, ValueError):
        return ""
    kept = [
        each.replace(annotation=inspect.Parameter.empty)
        for name, each in found.parameters.items()
        if name not in ("self", "cls")
    ]
    plain = found.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    text = _readable(str(plain))
    if len(text) > SIGNATURE and ", *, " in text:
        text = text.partition(", *, ")[0] + ", *, ...)"
    return f"```text\n{shown.name.removeprefix('tos_notebook.')}{text}\n```"


def _defaults(value: Any) -> dict[str, str]:
    if isinstance(value, property):
        return {}
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return {}
    empty = inspect.Parameter.empty
    return {each.name: _short(each.default) for each in parameters if each.default is not empty}


def _short(value: object) -> str:
    return code(_readable(repr(value)))


def _readable(text: str) -> str:
    """Return representations without addresses: enumerations by name, objects by type."""
    text = re.sub(r"<([\w.]+) object at 0x\w+>", r"\1()", text)
    text = re.sub(r"<function ([\w.]+) at 0x\w+>", r"\1", text)
    return re.sub(r"<(\w+)\.(\w+): [^>]*>", r"\1.\2", text)


def _fields(title: str, found: Iterable[Parameter], defaults: Mapping[str, str]) -> str:
    rows = [
        (
            ", ".join(code(name.strip()) for name in each.name.split(",")),
            inline(re.sub(r", optional$|, default.*$", "", each.type)),
            _defaults_of(each.name, defaults),
            inline(" ".join(each.desc)),
        )
        for each in found
    ]
    if not rows:
        return ""
    if not any(row[2] for row in rows):
        head = (title.removesuffix("s"), "Type", "Meaning")
        return table(head, [(row[0], row[1], row[3]) for row in rows])
    return table((title.removesuffix("s"), "Type", "Default", "Meaning"), rows)


def _defaults_of(names: str, defaults: Mapping[str, str]) -> str:
    """Return the defaults of parameters that share a row: one if all have the same."""
    found = [defaults.get(name.strip().lstrip("*"), "") for name in names.split(",")]
    return ", ".join(filter(None, found if len(set(found)) > 1 else found[:1]))


def _documented_fields(value: Any) -> Iterator[Parameter]:
    """Yield the fields of a class that have a docstring below them."""
    if not inspect.isclass(value):
        return
    try:
        body = ast.parse(dedent(inspect.getsource(value))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError):
        return
    for field, text in pairwise(body):
        said = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and said and isinstance(text.value.value, str):
            kind = (
                ast.unparse(field.annotation).replace(" | None", " or None").replace(" | ", " or ")
            )
            yield Parameter(ast.unparse(field.target), kind, [text.value.value])


def _returned(title: str, found: Iterable[Parameter]) -> str:
    lines = []
    for each in found:
        named = f"{code(each.name)}: " if each.name else ""
        lines.append(f"{named}{inline(each.type)}. {inline(' '.join(each.desc))}".strip())
    return f"**{title}** " + " ".join(lines) if lines else ""


def _raised(found: Iterable[Parameter]) -> str:
    rows = [
        (
            ", ".join(code(name.strip()) for name in each.type.split(",")),
            inline(" ".join(each.desc)),
        )
        for each in found
    ]
    return table(("Raises", "When"), rows) if rows else ""
