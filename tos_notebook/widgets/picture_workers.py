"""The table of workers in a run's still picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..readable import amount, shortened
from .news import Plain, RunInfo
from .numbers import percent, words

MOST_ROWS = 64
"""Workers in the table at most; a run's own `workers` has them all."""

MOST_NAME = 40
"""Characters of an executor's or a host's name that are shown; its tooltip has all."""

LEFT = ' style="text-align:left"'
TABLE = (
    '<div style="overflow-x:auto">'
    '<table cellpadding="4" style="text-align:right;white-space:nowrap;overflow-wrap:normal">'
)

COLUMNS = (
    ("Executor", "executor"),
    ("Host", "host"),
    ("Partition", "partition"),
    ("State", "state"),
    ("Epoch", "epoch"),
    ("Milestones", "milestones"),
    ("Samples", "samples"),
    ("Samples/s", "samples_per_second"),
    ("Computes", "computing"),
    ("Reduces", "exchanging"),
    ("Waits", "waiting"),
    ("Staleness, mean", "staleness_mean"),
    ("Staleness, most", "staleness_max"),
    ("CPU", "cpu"),
    ("Memory", "memory"),
    ("Sent", "sent"),
    ("Received", "received"),
    ("Lost", "lost"),
)

TEXTS = ("executor", "host", "state")
"""Columns of text."""

BYTES = ("memory", "sent", "received")
"""Columns of amounts of data."""

TOGETHER = ("computing", "exchanging", "waiting")
APART = ("staleness_mean", "staleness_max")
"""Columns that tell something only where all workers make each step together, and only where not.
"""


def is_stale(run: RunInfo) -> bool:
    """Return whether pushes are merged one by one, so that their staleness is counted."""
    return not run["lockstep"] and run["combiner"] is not None


def workers_table(rows: Sequence[Plain], run: RunInfo) -> str:
    """Return the workers as HTML; empty without any."""
    if not rows:
        return ""
    unfit = {*(() if run["lockstep"] else TOGETHER), *(() if is_stale(run) else APART)}
    columns = [c for c in COLUMNS if c[1] not in unfit]
    heads = "".join(f'<th scope="col"{_align(key)}>{name}</th>' for name, key in columns)
    lines = [
        "<tr>" + "".join(_cell(key, row[key]) for _, key in columns) + "</tr>"
        for row in rows[:MOST_ROWS]
    ]
    table = [TABLE, f"<tr>{heads}</tr>", *lines, "</table></div>"]
    if (more := len(rows) - MOST_ROWS) > 0:
        table.append(f"<p>… and {more} more workers: <code>run.workers</code></p>")
    return "\n".join(table)


def _align(key: str) -> str:
    return LEFT if key in TEXTS else ""


def _cell(key: str, value: Any) -> str:
    title = ""
    if key in TEXTS:
        text = escape(shortened(value, MOST_NAME))
        title = f' title="{escape(value)}"' if len(value) > MOST_NAME else ""
    elif key in BYTES:
        text = words(None) if value is None else amount(value)
    elif key in (*TOGETHER, "cpu"):
        text = percent(value)
    elif key in ("partition", "epoch"):
        text = str(value)
    else:
        text = words(value)
    return f"<td{_align(key)}{title}>{text}</td>"
