"""Run the body of a cell as IPython would, and notice what it defines."""

from __future__ import annotations

import ast
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError

from .graphs import fresh_graph, is_graph_code, names, without_resets


@dataclass(frozen=True, slots=True)
class Ran:
    """What a cell did.

    Parameters
    ----------
    graph : bool
        Whether it was TF1-style and ran in a graph of its own.
    bound : frozenset of str
        Names it bound, for the first time or again.
    mentioned : frozenset of str
        Names it read.
    """

    graph: bool = False
    bound: frozenset[str] = frozenset()
    mentioned: frozenset[str] = frozenset()


TRAIN, CLUSTER = "%%tos_train", "%%tos_cluster"


def keep_empty(lines: list[str]) -> list[str]:
    """Return the lines of a cell, with an empty one for the body that a training cell lacks.

    IPython refuses a cell without a body by itself. The magic says what to write there.
    """
    return [*lines, "\n"] if len(lines) == 1 and lines[0].startswith((TRAIN, CLUSTER)) else lines


_EXPECTED = {
    TRAIN: (
        "makes what is to be trained, such as a compiled Keras model; got none. To train what an "
        "earlier cell has made"
    ),
    CLUSTER: (
        "defines main(args, ctx), which runs in each node; got none. To run the main of an "
        "earlier cell"
    ),
}


def refuse_empty(cell: str, line: str, header: str = TRAIN) -> None:
    """Refuse a body without code.

    Raises
    ------
    UsageError
        The cell has none.
    """
    if not cell.strip():
        raise UsageError(
            f"{header}: expected code below this line that {_EXPECTED[header]}, use one %: "
            f"{f'{header[1:]} {line}'.rstrip()}"
        )


def run_cell(shell: Any, cell: str, header: str, graphs: bool = True) -> Ran:
    """Execute a cell's body in the notebook's namespace.

    Parameters
    ----------
    shell : InteractiveShell
    cell : str
        The body.
    header : str
        The magic's own line, which line numbers count too.
    graphs : bool
        Whether TF1-style code runs in a graph of its own.

    Raises
    ------
    Exception
        What the cell raised; IPython shows it as if the cell had no magic.
    """
    comment = f"# {header}\n"
    try:
        code = shell.transform_cell(cell)
        name = shell.compile.cache(comment + code, _prompt(shell), raw_code=comment + cell)
        tree = shell.compile.ast_parse(comment + code, filename=name)
    except SyntaxError as error:
        raise _without_frames(shell, error) from None
    tree = shell.transform_ast(tree)
    graph = graphs and is_graph_code(tree, shell.user_ns)
    before = dict(shell.user_ns)
    place: AbstractContextManager[Any] = nullcontext()
    if graph:
        tree = without_resets(tree)
        place = fresh_graph()
    with place:
        _execute(shell, tree, name)
    after = shell.user_ns
    changed = {n for n, v in list(after.items()) if n not in before or before[n] is not v}
    bound = changed | names(tree, ast.Store) & after.keys()
    return Ran(graph, frozenset(bound), frozenset(names(tree)))


def _prompt(shell: Any) -> int:
    """Return the number of the cell that is being executed, as its prompt shows it.

    Newer shells count the next cell already while one is executed.
    """
    frame = sys._getframe(1)
    while frame is not None:
        named = shell.compile.format_code_name(frame.f_code.co_filename)
        found = re.search(r"\d+", named[1]) if named else None
        if found:
            return int(found[0])
        frame = frame.f_back  # type: ignore[assignment]
    return int(shell.execution_count)


def _without_frames(shell: Any, error: SyntaxError) -> Exception:
    """Return what IPython shows as a cell's own syntax error: nothing of it has run.

    To one that is raised by code, as by a magic, it adds that code's frames.
    """

    def render(self: Exception) -> Any:
        return shell.SyntaxTB.structured_traceback(type(error), error, [])

    kind = type(type(error).__name__, (Exception,), {"_render_traceback_": render})
    raised: Exception = kind(str(error))
    return raised


def _execute(shell: Any, tree: ast.Module, name: str) -> None:
    body, last = tree.body, []
    if body and isinstance(body[-1], ast.Expr):
        body, last = body[:-1], body[-1:]
    parts = [(ast.Module(body, []), "exec"), (ast.Interactive(last), "single")]
    try:
        codes = [shell.compile(part, name, mode) for part, mode in parts]
    except SyntaxError as error:
        raise _without_frames(shell, error) from None
    try:
        for code in codes:
            exec(code, shell.user_global_ns, shell.user_ns)
    except BaseException as error:
        _show_as_users(shell, error)
        raise


def _show_as_users(shell: Any, error: BaseException) -> None:
    """Let IPython show an error of the cell without the frames of magics around it."""
    if hasattr(error, "_render_traceback_") or error.__traceback__ is None:
        return
    below = error.__traceback__.tb_next

    def render() -> Any:
        return shell.InteractiveTB.structured_traceback(type(error), error, below, tb_offset=0)

    error._render_traceback_ = render  # type: ignore[attr-defined]
