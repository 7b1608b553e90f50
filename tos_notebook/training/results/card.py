"""A run's model card: what those who get the model should know, as Markdown."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...blocks.source import DataSource
from ...cluster.environment import installed_version
from ...common import temporary
from ...common.rows import Rows
from ...readable import as_markdown
from .report import setting_facts
from .save import deliver
from .view import RunView

if TYPE_CHECKING:
    import pandas as pd

EPOCHS = 20
"""Rows of the table of epochs at most; of more epochs, evenly chosen ones."""

PACKAGES = ("tensorflow", "keras", "pyspark", "numpy")
"""Whose versions are named."""

BARS = "▁▂▃▄▅▆▇█"


def write_card(
    sc: Any,
    run: RunView,
    source: DataSource,
    optimizer_state: str,
    target: str | os.PathLike[str],
) -> str:
    """Write the card of a run; see `tos_notebook.Run.model_card`."""
    with temporary.directory("tos-card-") as folder:
        made = Path(folder, "card.md")
        made.write_text(card(run, source, optimizer_state), encoding="utf-8")
        return deliver(sc, made, os.fspath(target))


def card(run: RunView, source: DataSource, optimizer_state: str) -> str:
    """Return the card of a run as Markdown.

    Parameters
    ----------
    run : RunView
    source : DataSource
        What it is trained on.
    optimizer_state : {"keep", "reset"}
    """
    settings = setting_facts(run, optimizer_state).items()
    sections = (
        (f"Model of {as_markdown(_called(run))}", _summary(run)),
        ("Data", _data(run, source)),
        ("Training", _training(run)),
        ("Settings", _table(("setting", "value"), settings)),
        *([("Steering", _steering(run.events))] if run.events else []),
        ("Parameters", _parameters(run)),
        ("Versions", _table(("package", "version"), versions())),
    )
    parts = [
        f"{'#' if number == 0 else '##'} {title}\n\n{text}"
        for number, (title, text) in enumerate(sections)
    ]
    return "\n\n".join(parts) + "\n"


def _called(run: RunView) -> str:
    return run.run_id if run.name is None else f"{run.name} ({run.run_id})"


def _summary(run: RunView) -> str:
    now = run.status
    date = datetime.now().astimezone().isoformat(timespec="minutes")
    program, master = as_markdown(run.program.summary), as_markdown(run.master)
    how = "in steps of all workers together" if run.settings.lockstep else "asynchronously"
    return (
        f"{program}. Trained {how} on Spark ({master}) by tos_notebook {__version__}; "
        f"written {date}, when the run was {now.state}: epoch {now.epoch} of {now.epochs}, "
        f"{now.samples:,} samples in {now.elapsed:.1f} s."
    )


def _data(run: RunView, source: DataSource) -> str:
    feeds = (feed.name for feed in run.program.feeds)
    rows = [
        (name, column.dtype, str(tuple(column.shape)))
        for name, column in zip(feeds, source.columns, strict=True)
    ]
    count = "unknown" if source.samples is None else f"{source.samples:,}"
    table = _table(("feed", "dtype", "shape of a row"), rows)
    return f"{count} rows in {source.partitions} partitions.\n\n{table}"


def _training(run: RunView) -> str:
    history = run.history
    if history.empty:
        return "Nothing was trained."
    losses = epoch_losses(history).to_dict()
    validation = run.validation
    names = [n for n in validation.columns if n not in ("time", "epoch", "samples")]
    by_epoch = {int(row["epoch"]): row for row in validation.to_dict("records")}
    rows = [
        (str(epoch), _text(loss), *(_text(by_epoch.get(epoch, {}).get(n)) for n in names))
        for epoch, loss in _some(list(losses.items()))
    ]
    table = _table(("epoch", "loss", *(f"validation {n}" for n in names)), rows)
    return f"Loss by epoch: `{sparkline(list(losses.values()))}`\n\n{table}"


def epoch_losses(history: pd.DataFrame) -> pd.Series[float]:
    """Return the mean loss over the samples of each epoch of a run's history."""
    weighted = history.assign(loss=history["loss"] * history["samples"])
    sums = weighted.groupby("epoch")[["loss", "samples"]].sum()
    return sums["loss"] / sums["samples"]


def sparkline(values: Sequence[float]) -> str:
    """Return a curve as a line of bars; what is not finite is a space."""
    finite = [v for v in values if math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((v - low) * scale)] if math.isfinite(v) else " " for v in values)


def _steering(events: Rows) -> str:
    """Return what the run was told: settings alone name the last ones."""
    rows = (
        (f"{each['seconds']:.1f}", str(each["epoch"]), each["command"], each["detail"],
         each["source"], each["state"])
        for each in events
    )  # fmt: skip
    return _table(("seconds", "epoch", "command", "detail", "source", "state"), rows)


def _parameters(run: RunView) -> str:
    specs = run.program.layout.of_model.specs
    rows = [(s.name, s.dtype, str(s.shape), f"{s.size:,}") for s in specs]
    return _table(("name", "dtype", "shape", "elements"), rows)


def versions() -> list[tuple[str, str]]:
    """Return name and version of what a run depends on."""
    packages = [(name, installed_version(name)) for name in PACKAGES]
    return [("Python", platform.python_version()), ("tos_notebook", __version__), *packages]


def _some(rows: Sequence[Any]) -> Sequence[Any]:
    if len(rows) <= EPOCHS:
        return rows
    last = len(rows) - 1
    return [rows[round(n * last / (EPOCHS - 1))] for n in range(EPOCHS)]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[as_markdown(cell) for cell in line] for line in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
