"""A run as a still picture, for notebooks that are read where no widget runs."""

from __future__ import annotations

import time
from dataclasses import replace
from html import escape

from ..readable import all_readable, counted, shortened
from ..training.run import Run
from .facts import RunFacts
from .headline import headline
from .model import RunModel, model_of
from .news import Failure, News, RunInfo
from .picture_charts import charts
from .picture_facts import facts_of, steered
from .picture_workers import LEFT, workers_table
from .saved import RUN, saved
from .workers import OVER

MOST_TEXT = 4000
"""Characters of one text of an error that are shown."""

_PRE = '<pre style="font-family:monospace">'
"""JupyterLab's outputs have their own letters there otherwise."""

_ALARM = "border-left:4px solid #d64545;padding:4px 12px;margin:8px 0"


class Result:
    """How a run stands or ended, as it is displayed: its results, curves, how it was run.

    Parameters
    ----------
    run : Run
        With a `RunModel` among its sinks.
    """

    def __init__(self, run: Run) -> None:
        self._facts = RunFacts(run)
        self._model = model_of(run)

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, object]:
        return bundle(self._model, self._facts)

    def __repr__(self) -> str:
        return plain(_snapshot(self._model, self._facts))


def bundle(model: RunModel, facts: RunFacts) -> dict[str, object]:
    """Return a run as it stands: HTML, plain text, and what a page draws charts of.

    The last is there only for runs that front ends know by their names.
    """
    news = _snapshot(model, facts)
    named = {RUN: saved(news)} if model.announced else {}
    return {**named, "text/html": html(news), "text/plain": plain(news)}


def _snapshot(model: RunModel, facts: RunFacts) -> News:
    """Return a run as it stands, its texts as a view gets them."""
    news = model.snapshot(time.time(), facts())
    return replace(news, state=all_readable(news.state))


def plain(news: News) -> str:
    """Return a snapshot in a few lines of text."""
    state = news.state
    moment = _moment(state["run"])
    lines = [
        headline(news),
        *([moment] if moment else []),
        *(f"  {name}: {text}" for name, text in facts_of(news)),
    ]
    if error := state["run"]["error"]:
        lines += [f"  {error['message']}{_where(error)}", *error["frames"]]
    return "\n".join(lines)


def html(news: News) -> str:
    """Return a snapshot as HTML without styles of its own: it suits light and dark pages."""
    state = news.state
    run, totals = state["run"], state["totals"]
    first, others, names = charts(news)
    waiting = "" if run["error"] else "<p>No loss yet.</p>"
    parts = [
        f'<div class="tos-result" data-state="{escape(run["state"])}" '
        f'data-milestones="{totals["milestones"]}" style="overflow-wrap:anywhere">',
        f"<p><strong>{escape(headline(news))}</strong></p>",
        f"<p>{escape(moment)}</p>" if (moment := _moment(run)) else "",
        alarm(run["error"]),
        first or waiting,
        _folded(f"More curves: {names}", others),
        _folded("Steering", _list(steered(state))),
        _workers(news),
        _folded("Settings", _settings(news)),
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _workers(news: News) -> str:
    """Return the table, unless nothing was trained: it would be full of zeros."""
    state = news.state
    if not state["totals"]["milestones"]:
        return ""
    rows = state["workers"]
    return _folded(counted(len(rows), "worker").capitalize(), workers_table(rows, state["run"]))


def _settings(news: News) -> str:
    # Else it would stand in the middle of a page's outputs, and not where other things begin.
    table = '<table cellpadding="4" style="margin-left:0">'
    return "\n".join([table, *(_fact(name, text) for name, text in facts_of(news)), "</table>"])


def _fact(name: str, text: str) -> str:
    shown = escape(shortened(text, MOST_TEXT))
    return f'<tr><th scope="row"{LEFT}>{name}</th><td{LEFT}>{shown}</td></tr>'


def _list(lines: list[str]) -> str:
    items = "".join(f"<li>{escape(shortened(line, MOST_TEXT))}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _folded(title: str, content: str) -> str:
    """Return something folded away; nothing where there is nothing."""
    return f"<details><summary>{title}</summary>\n{content}\n</details>" if content else ""


def _moment(run: RunInfo) -> str:
    """Return as of when a run that trains is shown: a notebook may be saved then."""
    if run["state"] in OVER:
        return ""
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return f"The run as it was at {when}, while it was still active."


def _where(error: Failure) -> str:
    return f" ({shortened(error['where'], MOST_TEXT)})" if error["where"] else ""


def alarm(error: Failure | None) -> str:
    """Return the message and the user's own frames, and the rest folded away."""
    if error is None:
        return ""
    message = escape(shortened(error["message"], MOST_TEXT))
    parts = [
        f'<div role="alert" style="{_ALARM}">',
        f"<p><strong>{message}</strong>{escape(_where(error))}</p>",
    ]
    if error["frames"]:
        parts.append(f"{_PRE}{escape(shortened(chr(10).join(error['frames']), MOST_TEXT))}</pre>")
    if error["rest"]:
        rest = escape(shortened(error["rest"], 2 * MOST_TEXT))
        parts.append(_folded("Full traceback", f"{_PRE}{rest}</pre>"))
    return "\n".join([*parts, "</div>"])
