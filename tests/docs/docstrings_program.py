"""What is missing of the docstrings that the reference shows, and of those of protocols.

    python -m tests.docs.docstrings_program

It is a program of its own: TensorOnSpark's module among the others makes a graph the default.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from inspect import getsource, isclass, ismodule, isroutine
from itertools import pairwise
from textwrap import dedent

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

from tests.docs.pages import DOCS
from tools.structure import package_modules

CHECKS = {
    *("GL07", "GL08"),  # there is a docstring, and its sections are in their order
    *("PR01", "PR02", "PR03", "PR04"),  # parameters: all, no others, in order, with a type
    *("RT03", "YD01"),  # what comes back is described; a generator says what it yields
    *("SS02", "SS03", "SS05"),  # a summary: a sentence that says what the function does
}
DIRECTIVE = re.compile(
    r"^\.\. (auto(?:module|class|function)|currentmodule):: ([\w.]+)(\(\))?((?:\n +:.*)*)", re.M
)
OPTION = re.compile(r":([\w-]+):(.*)")
POINTER = re.compile(
    r"^See `|; see `\w+\.\w+`\.$|(?i:parameters) (and \w+ )?are those\s+of `", re.M
)
OURS = "tos_notebook"
CONSTRUCTORS = ("__init__", "__post_init__")
INNER = (ast.FunctionDef, ast.Lambda)
load = Validator._load_obj


def members(name: str, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the qualified names that autodoc shows of a module or class."""
    owner, hidden = load(name), re.findall(r"\w+", options.get("exclude-members", ""))
    homes = OURS if "imported-members" in options else name
    for part in re.findall(r"\w+", options.get("members", "")) or vars(owner):
        value = getattr(owner, part)
        known = isclass(value) or isroutine(value) or isinstance(value, property)
        if not known or part.startswith("_") or part in hidden:
            continue
        if not ismodule(owner):
            yield f"{name}.{part}"
        elif str(value.__module__).startswith(homes):
            yield f"{name}.{part}"
            if isclass(value):
                yield from members(f"{name}.{part}", {})


def shown() -> Iterator[tuple[str, bool]]:
    """Yield the qualified names of what the reference shows, and whether users construct it."""
    for page in sorted((DOCS / "reference").glob("*.md")):
        current = ""
        for kind, part, closed, block in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            name = part if part.startswith(OURS) else f"{current}.{part}"
            options = dict(OPTION.findall(block))
            if kind == "currentmodule":
                current = name
            elif kind != "automodule":
                yield name, not closed
            if "members" in options:
                yield from ((member, True) for member in members(name, options))


def protocols() -> Iterator[tuple[str, bool]]:
    """Yield the qualified names of the protocols of the package, and of what they ask for."""
    for module in package_modules().values():
        for node in ast.parse(module.source).body:
            if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
                name = f"{module.name}.{node.name}"
                yield from ((each, False) for each in (name, *members(name, {})))


def above(name: str) -> list[object]:
    """Return what an object overrides: the bases of a class, or their methods of its name."""
    value, (owner, _, part) = load(name), name.rpartition(".")
    line = value.__mro__ if isclass(value) else getattr(load(owner), "__mro__", ())
    bases = [base for base in line[1:] if base.__module__.startswith(OURS)]
    if isclass(value):
        return bases
    return [getattr(base, part) for base in bases if part in vars(base)]


@cache
def told(value: object) -> set[str]:
    """Return the parameters that an object documents, as such, as attributes or as fields."""
    doc = Validator(get_doc_object(value))
    found = {*doc.doc_all_parameters, *(each.name for each in doc.doc["Attributes"])}
    if isclass(value):
        for field, line in pairwise(ast.parse(dedent(getsource(value))).body[0].body):
            if isinstance(field, ast.AnnAssign) and isinstance(line, ast.Expr):
                found.add(ast.unparse(field.target))
        # What several classes of a module have is said at its top.
        for line in re.findall(r"^- `.*:.*", import_module(value.__module__).__doc__ or "", re.M):
            found.update(re.findall(r"`(\w+)`", line))
    return found


def raised(value: object, source: str) -> set[str]:
    """Return the errors that a function raises itself, or the constructor of a class."""
    nodes = ast.parse(source).body[:1]
    if isclass(value):
        nodes = [part for part in nodes[0].body if getattr(part, "name", "") in CONSTRUCTORS]
    found = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found.add(ast.unparse(node.exc.func))
        nodes += [part for part in ast.iter_child_nodes(node) if not isinstance(part, INNER)]
    return found


class Documented(Validator):
    """Misses no parameter that has a line elsewhere, or belongs to what users do not construct."""

    def __init__(self, obj_name: str) -> None:
        super().__init__(get_doc_object(load(obj_name)))
        points = POINTER.search(self.raw_doc) is not None
        self.complete = not points and (SHOWN[obj_name] or not isclass(self.obj))
        self.elsewhere = told(self.obj).union(*map(told, above(obj_name)))

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        names, here = super().signature_parameters, self.doc_all_parameters
        missed = set(names) - self.elsewhere if self.complete else ()
        return tuple(name for name in names if name in here or name in missed)


SHOWN = dict([*shown(), *protocols()])


def problems(name: str) -> list[str]:
    """Return what a docstring lacks, or what is wrong in it."""
    doc = Documented(name)
    said = {error for each in doc.doc["Raises"] for error in each.type.split(", ")}
    unsaid = raised(doc.obj, doc.method_source) - said if doc.complete else set()
    found = [text for code, text in validate(name, Documented)["errors"] if code in CHECKS]
    return found + [f"{error} is raised, and not documented" for error in sorted(unsaid)]


if __name__ == "__main__":
    for name in sorted(SHOWN):
        for problem in problems(name):
            print(f"{name}: {problem}")
    print(f"{len(SHOWN)} docstrings")
