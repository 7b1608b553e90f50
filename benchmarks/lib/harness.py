"""What every benchmark program shares: options, rows, the table, the machine."""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from tos_notebook.common.console import quiet_stderr
from tos_notebook.errors import TosError

COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}

PACKAGES = ("pyspark", "tensorflow", "keras", "numpy")


@dataclass(frozen=True)
class Row:
    """One result.

    Parameters
    ----------
    what : str
    value : float
    unit : str
        ``x`` for a ratio of two rates.
    goal : str
        What it should be, such as ``>= 0.95`` or ``== 0``; empty for what has no goal.
    parts : dict of str
        What the value is made of, and where the rest goes.
    runs : int
        Measurements that the value comes from.
    command : str
        What has measured it; `program` says so.
    """

    what: str
    value: float
    unit: str
    goal: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    runs: int = 1
    command: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value is what it should be; None without a goal."""
        if not self.goal:
            return None
        sign, bound = self.goal.split()
        return bool(COMPARISONS[sign](self.value, float(bound)))

    def __str__(self) -> str:
        goal = f"  (goal {self.goal}: {'met' if self.met else 'missed'})" if self.goal else ""
        runs = f"{self.runs} run" + ("s" if self.runs > 1 else "")
        lines = [f"{self.what:<58} {self.value:9.3f} {self.unit:<6} {runs:>7}{goal}"]
        lines += [f"    {name:<34} {text}" for name, text in self.parts.items()]
        return "\n".join(lines)


def machine() -> str:
    """Return the machine and the versions, in one line."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{found[1] if found else platform.machine()}, {cores} cores, {memory:.0f} GiB, load "
        f"{os.getloadavg()[0]:.1f}; Python {platform.python_version()}, {packages}"
    )


def rate(samples_per_second: float) -> str:
    """Return a rate as text."""
    return f"{samples_per_second:,.0f} samples/s"


def milliseconds(seconds: float) -> str:
    """Return a time as text."""
    return f"{seconds * 1e3:.2f} ms"


def print_table(rows: Iterable[Row]) -> None:
    """Print date and machine, each command with its rows, and how many goals were missed."""
    print(f"\n{datetime.now(UTC):%Y-%m-%d}, {machine()}\n")
    verdicts = []
    for command, measured in groupby(rows, lambda row: row.command):
        print(f"$ {command}")
        for row in measured:
            print(row)
            verdicts.append(row.met)
    if missed := verdicts.count(False):
        print(f"\n{missed} of {missed + verdicts.count(True)} goals missed")


def program(
    measure: Callable[..., list[Row]],
    about: str | None,
    figure: Callable[[], Any] | None = None,
    folder: tuple[str, str] | None = None,
) -> None:
    """Run one benchmark as a program.

    Parameters
    ----------
    measure : callable
        Takes whether to be quick.
    about : str
        The module's docstring.
    figure : callable, optional
        Returns a plotly figure of what was measured.
    folder : (str, str), optional
        Name and help of an option. `measure` takes the folder, or None, by this name.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here instead")
    if figure is not None:
        parser.add_argument("--figure", type=Path, metavar="FILE", help="draw it here, as HTML")
    if folder is not None:
        parser.add_argument(f"--{folder[0]}", type=Path, metavar="DIR", help=folder[1])
    options = parser.parse_args()
    more = {} if folder is None else {folder[0]: getattr(options, folder[0])}
    try:
        with quiet_stderr():
            rows = measure(options.quick, **more)
    except TosError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    # Readers need not know which folder of this machine it was.
    given = "".join(f" --{name} DIR" for name, value in more.items() if value is not None)
    rows = [replace(row, command=command(options.quick) + given) for row in rows]
    if figure is not None and options.figure is not None:
        figure().write_html(options.figure)
    if options.json is None:
        print_table(rows)
    else:
        options.json.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


def command(quick: bool) -> str:
    """Return what a person types to run this program again."""
    spec = sys.modules["__main__"].__spec__
    name = "" if spec is None else spec.name
    return f"python -m {name}" + (" --quick" if quick else "")


def read_rows(path: Path) -> list[Row]:
    """Return what `program` wrote with ``--json``."""
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
