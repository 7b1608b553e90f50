"""What the pages take from the code: ``<!-- generated WHAT -->``, written by `docs._ext.pages`.

Each function returns Markdown. TensorFlow and Spark are not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from textwrap import dedent

from docs._ext import scaling
from docs._ext.layers import LAYER_NAMES, Part, parts
from docs._ext.messages import Message, messages
from docs._ext.tables import code, plain, table
from tools.structure import on_executors

ROOT = Path(__file__).parents[2]


def error_messages(error: str) -> str:
    """List what the package says when it raises a class."""
    own = [message for message in messages() if message.error == error and message.is_known]
    if not own:
        return "It has no fixed messages: it reports what happened."
    lines = ["**Messages**, by the part of the package that raises them:", ""]
    for part, said in groupby(sorted(own, key=_place), key=lambda message: _place(message)[0]):
        lines += [f"- {part}", *(f"  - {code(message.text)}" for message in said)]
    return "\n".join(lines)


def _place(message: Message) -> tuple[str, str]:
    return message.module.partition(".")[0], message.text


def magics() -> str:
    """Describe every magic, as ``?`` does: from its parser and its docstring."""
    from tos_notebook.magics import TosMagics
    from tos_notebook.magics.parsers import PARSERS

    documented = [name for name in vars(TosMagics) if name in PARSERS]
    return "\n\n".join(_magic(name, getattr(TosMagics, name).__doc__) for name in documented)


def _magic(name: str, text: str) -> str:
    from tos_notebook.magics.parsers import PARSERS
    from tos_notebook.magics.text import combiners

    parser = PARSERS[name]
    summary, _, rest = text.replace(parser.help(), "").partition("\n")
    more, _, examples = rest.partition("Examples\n--------\n::\n")
    examples, listed, _ = examples.partition(combiners())
    pieces = [f"## {code(parser.name)}", prose(summary.strip()), _usage(parser.usage)]
    pieces += [prose(more.strip())]
    options = [(", ".join(map(code, names)), prose(meaning)) for names, meaning in parser.explained]
    pieces += [table(("Option", "Meaning"), options)] if options else []
    pieces += ["The page on [combiners](combiners.md) lists them."] if listed else []
    return "\n\n".join([*filter(None, pieces), f"```ipython\n{dedent(examples).strip()}\n```"])


def _usage(usage: str) -> str:
    return f"```text\n{usage}\n```"


def defaults() -> str:
    """Tabulate the defaults of ``%%tos_train``, which ``%tos_config`` sets."""
    from tos_notebook.magics import TosMagics

    traits = TosMagics.class_traits(config=True)
    rows = [
        (code(n), code(repr(t.default_value)), prose(t.help)) for n, t in sorted(traits.items())
    ]
    return table(("Setting", "Default", "Meaning"), rows)


def combiners() -> str:
    """Tabulate the built-in combiners."""
    from tos_notebook.combiners import describe

    rows = [
        (code(_called(row["name"], row["defaults"])), code(row["rule"]), plain(row["when"]))
        for row in describe()
    ]
    return table(("Combiner", "Rule", "When to choose it"), rows)


def combiner_sources() -> str:
    """Tabulate what the built-in combiners remember, and where they were published."""
    from tos_notebook.combiners import describe

    rows = [
        (code(row["name"]), plain(row["pushes"]), plain(row["state"]), plain(row["source"]))
        for row in describe()
    ]
    return table(("Combiner", "Workers push", "State", "Source"), rows)


def _called(name: str, given: dict[str, object]) -> str:
    values = ", ".join(f"{key}={value!r}" for key, value in given.items())
    return f"{name}({values})" if values else name


def strategies() -> str:
    """Tabulate the strategies."""
    from tos_notebook.strategies import describe

    rows = [
        (
            code(row["name"]),
            plain(row["summary"]),
            plain(row["when"]),
            ", ".join(code(f"{name}={value!r}") for name, value in row["defaults"].items()),
        )
        for row in describe()
    ]
    return table(("Strategy", "What it does", "When to choose it", "Options"), rows)


def strategy_figures() -> str:
    """Tabulate what was measured of exchanges, from the newest file of results that has any."""
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.txt"), reverse=True):
        if rows := figures(path.read_text(encoding="utf-8"), ("reduce",)):
            return f"From `{path.name}`.\n\n{table(('Measurement', 'Result'), rows)}"
    return (
        "[Benchmarks](../benchmarks.md#what-training-costs) has what the programs `allreduce`, "
        "`reduce` and `shards` have measured. `python -m benchmarks reduce` measures exchanges on "
        "your machine."
    )


def figures(text: str, programs: Iterable[str]) -> list[tuple[str, str]]:
    """Return what programs have measured, and the value of each, from their plain output."""
    found, wanted = [], False
    for line in text.splitlines():
        if line.startswith("$ "):
            wanted = line.split()[3].rpartition(".")[2] in programs
        row = re.match(r"(\S.*?) {2,}(-?[\d.]+) (\S*) +\d+ runs?", line)
        if wanted and row is not None:
            found.append((plain(row[1]), f"{row[2]} {row[3]}".strip()))
    return found


def saturations() -> str:
    """Tabulate the numbers of workers at which ways of training are saturated, as simulated."""
    head = ["Parameters", *(name.capitalize() for name in scaling.NAMES.values())]
    return table(head, scaling.saturations())


def codecs() -> str:
    """Tabulate the codecs."""
    from tos_notebook.codecs import describe

    rows = [
        (
            code(row["example"]),
            f"{row['ratio']:g}",
            row["feedback"],
            plain(row["when"]),
            plain(row["source"]),
        )
        for row in describe()
    ]
    return table(("Codec", "Saves", "Error feedback", "When to choose it", "Source"), rows)


def options() -> str:
    """Tabulate the options of training: names, defaults, and what a resumed run does with them."""
    from tos_notebook.training.changed import LATER
    from tos_notebook.training.options import OPTIONS

    rows = []
    for name, each in OPTIONS.items():
        names = ", ".join(code(n) for n in (name, each.alias) if n)
        resumed = (
            "kept" if each.kept else "from the next epoch on" if name in LATER else "may change"
        )
        rows.append((names, code(repr(each.default)), plain(each.help), resumed))
    return table(("Option", "Default", "Meaning", "In a resumed run"), rows)


def commands() -> str:
    """Tabulate which command is legal in which state of a run."""
    from tos_notebook.steering.machine import COMMANDS, Command

    rows = [
        (code(str(state)), *("yes" if command in legal else "" for command in Command))
        for state, legal in COMMANDS.items()
    ]
    return table(("While the run is", *map(str, Command)), rows)


def code_map() -> str:
    """Tabulate the parts of the package by layers: what they import, and which executors have."""
    pieces = []
    for layer, own in groupby(parts(), key=lambda part: part.layer):
        rows = [_part_row(part) for part in own]
        pieces += [f"### {layer} · {LAYER_NAMES[layer]}"]
        heads = ("Part", "What it is", "Imports", "From outside", "On executors")
        pieces += [table(heads, rows)]
    return "\n\n".join(pieces)


def _part_row(part: Part) -> tuple[str, ...]:
    uses = ", ".join(map(code, part.uses))
    outside, runs = ", ".join(part.heavy), on_executors(part.name)
    return code(part.name), prose(part.summary), uses, outside, runs


def course() -> str:
    """List the notebooks: what each is about, and the file."""
    return "\n\n".join(map(_lesson, sorted((ROOT / "notebooks").glob("*.ipynb"))))


def _lesson(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, _, text = "".join(cells[0]["source"]).partition("\n")
    first, second = text.strip().split("\n\n")[:2]
    # A sentence that begins a list needs the list.
    first += "" if first.endswith(".") else f"\n\n{second}"
    link = f"[{path.stem}](../../notebooks/{path.name})"
    heading = f"{path.stem.partition('_')[0]} · {title.removeprefix('# ')}"
    return f"### {heading}\n\n{first}\n\nNotebook: {link}"


GENERATED: dict[str, Callable[..., str]] = {
    "code-map": code_map,
    "codecs": codecs,
    "combiner-sources": combiner_sources,
    "combiners": combiners,
    "saturations": saturations,
    "strategies": strategies,
    "strategy-figures": strategy_figures,
    "commands": commands,
    "course": course,
    "defaults": defaults,
    "error-messages": error_messages,
    "magics": magics,
    "options": options,
}


def prose(text: str) -> str:
    """Return lines of a docstring in Markdown: code and options are code, magics are links."""
    pieces = re.split("`+", text)
    return "".join(code(p) if at % 2 else _with_magics(p) for at, p in enumerate(pieces))


def _with_magics(text: str) -> str:
    pieces = re.split(r"(%{1,2}tos_\w+|(?<!\w)--[a-z][a-z-]*)", text)
    return "".join(_typed(p) if at % 2 else plain(p) for at, p in enumerate(pieces))


def _typed(word: str) -> str:
    return f"[{code(word)}](#{word.lstrip('%')})" if word.startswith("%") else code(word)
