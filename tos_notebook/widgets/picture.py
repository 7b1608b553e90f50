"""A run as a still picture, for notebooks that are read where no widget runs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from ..readable import all_readable, amount, counted, numbered, shortened
from ..steering.links import LinkRate, LinkRates
from ..training.results.report import OWN_RATE, OWN_STEP
from ..training.run import Run
from .facts import RunFacts
from .model import RunModel, model_of
from .news import Costs, Failure, Links, News, Plain, RunInfo, State
from .numbers import percent, short, span, words
from .series import ROWS
from .svg import Curve, chart, image
from .workers import OVER

MOST_ROWS = 64
"""Workers in the table at most; a run's own `workers` has them all."""

MOST_TEXT = 4000
"""Characters of one text of an error that are shown."""

MOST_NAME = 40
"""Characters of an executor's or a host's name that are shown; its tooltip has all."""

MOST_METRICS, FEW = 4, 100
"""Metrics that have a chart, and points of their curves: a saved notebook stays small."""

INTERVALS = 50
"""Over which the samples per second are taken."""

LEFT = ' style="text-align:left"'
TABLE = (
    '<div style="overflow-x:auto">'
    '<table cellpadding="4" style="text-align:right;white-space:nowrap">'
)
_ALARM = "border-left:4px solid #d64545;padding:4px 12px;margin:8px 0"

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
    ("Sent", "sent"),
    ("Received", "received"),
    ("Lost", "lost"),
)

TEXTS = ("executor", "host", "state")
"""Columns of text."""

TOGETHER = ("computing", "exchanging", "waiting")
APART = ("staleness_mean", "staleness_max")
"""Columns that tell something only where all workers make each step together, and only where not.
"""


class Result:
    """How a run stands or ended, as it is displayed: a curve, a table, how it was run.

    Parameters
    ----------
    run : Run
        With a `RunModel` among its sinks.
    """

    def __init__(self, run: Run) -> None:
        self._facts = RunFacts(run)
        self._model = model_of(run)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return bundle(self._model, self._facts)

    def __repr__(self) -> str:
        return plain(_snapshot(self._model, self._facts))


def bundle(model: RunModel, facts: RunFacts) -> dict[str, str]:
    """Return ``text/html`` and ``text/plain`` of a run as it stands."""
    news = _snapshot(model, facts)
    return {"text/html": html(news), "text/plain": plain(news)}


def _snapshot(model: RunModel, facts: RunFacts) -> News:
    """Return a run as it stands, its texts as a view gets them."""
    news = model.snapshot(time.time(), facts())
    return replace(news, state=all_readable(news.state))


def plain(news: News) -> str:
    """Return a snapshot in a few lines of text."""
    state = news.state
    moment = _moment(state["run"])
    lines = [
        _title(state),
        *([moment] if moment else []),
        *(f"  {name}: {text}" for name, text in _facts(news)),
    ]
    if error := state["run"]["error"]:
        lines += [f"  {error['message']}{_where(error)}", *error["frames"]]
    return "\n".join(lines)


def html(news: News) -> str:
    """Return a snapshot as HTML without styles of its own: it suits light and dark pages."""
    state = news.state
    run, totals = state["run"], state["totals"]
    failed, curves = run["error"] is not None, _curves(news)
    parts = [
        f'<div class="tos-result" data-state="{escape(run["state"])}" '
        f'data-milestones="{totals["milestones"]}" style="overflow-wrap:anywhere">',
        f"<p><strong>{escape(_title(state))}</strong></p>",
        f"<p>{escape(moment)}</p>" if (moment := _moment(run)) else "",
        alarm(run["error"]),
        _picture(curves.pop("loss", []), totals["loss"], failed),
        *_others(curves, _throughput(news)),
        *_folded("Workers and settings", _details(news), failed),
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _details(news: News) -> list[str]:
    state = news.state
    return [
        _workers(state["workers"], state["run"]) if state["totals"]["milestones"] else "",
        "<p><strong>How it was run</strong></p>",
        '<table cellpadding="4">',
        *(_fact(name, text) for name, text in _facts(news)),
        "</table>",
    ]


def _folded(title: str, parts: list[str], folded: bool = True) -> list[str]:
    """Return parts, folded away where something else is to be read first."""
    if not folded:
        return parts
    return [f"<details><summary>{title}</summary>", *parts, "</details>"]


def _moment(run: RunInfo) -> str:
    """Return as of when a run that trains is shown: a notebook may be saved then."""
    if run["state"] in OVER:
        return ""
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return f"The run as it was at {when}, while it was still active."


def _title(state: State) -> str:
    run = state["run"]
    return (
        f"Run {numbered(run['number'], run['name'])}: {run['state']}, "
        f"epoch {run['epoch']} of {run['epochs']}, {span(run['elapsed'])}"
    )


def _facts(news: News) -> list[tuple[str, str]]:
    """Return what is known of a run, by name; what is empty is left out."""
    run, totals = news.state["run"], news.state["totals"]
    samples = totals["samples"]
    each = f", {amount(totals['bytes'] / samples)} per sample" if samples else ""
    whole = 2 * run["model_bytes"] * totals["milestones"]
    if whole > 1.05 * totals["bytes"] > 0:
        each += f", {whole / totals['bytes']:.1f} times less than as they are"
    rate, stale = run["learning_rate"], _is_stale(run)
    interval = run["sync_interval"]
    # A strategy that draws samples has no interval, and makes the step itself.
    own = OWN_STEP if interval is None else OWN_RATE
    validated = ", ".join(f"{name} {words(v)}" for name, v in totals["validation"].items())
    facts = [
        (run["state"].capitalize(), run["reason"]),
        ("Pending", "; ".join(run["pending"])),
        ("Lost", " ".join(run["lost"])),
        ("Validation", validated),
        ("Training loss", words(totals["loss"])),
        ("Samples", f"{samples:,}, {words(totals['samples_per_second'])} per second"),
        ("Milestones", f"{totals['milestones']:,}"),
        ("Mean staleness", stale and f"{words(totals['staleness_mean'])} versions"),
        ("Exchanged", amount(totals["bytes"]) + each),
        *_costs(totals["costs"]),
        ("Links", _links(totals["links"])),
        ("Strategy", run["strategy"]),
        ("Combiner", run["combiner"]),
        ("Sync mode", stale and run["sync"]),
        ("Codec", run["codec"]),
        ("Exchange every", interval and _every(interval, run["batch_size"])),
        ("Learning rate", own if rate is None else words(rate)),
        ("Steered", "; ".join(_steered(news))),
        ("Chaos on purpose", "; ".join(run["chaos_log"])),
        ("Partitions", str(run["partitions"])),
        ("Program", run["program"]),
        ("Master", run["master"]),
        ("Id", run["id"]),
    ]
    return [(name, text) for name, text in facts if text]


def _every(interval: int, batch_size: int) -> str:
    return f"{counted(interval, 'batch', 'batches')} of {batch_size}"


def _costs(found: Costs | None) -> list[tuple[str, str]]:
    """Return what steps of all workers together cost of late, and who is the slowest."""
    if found is None:
        return []
    parts = percent(found["compute"]), percent(found["exchange"]), percent(found["wait"])
    rates = amount(found["sent"] or 0), amount(found["received"] or 0)
    told = [
        ("Workers' time", "compute {}, reduce {}, wait {}".format(*parts)),
        ("Each worker", "sends {}/s, receives {}/s".format(*rates)),
    ]
    if slowest := found["slowest"]:
        who = f"executor {slowest['executor']}, partition {slowest['partition']}"
        waits = percent(slowest["waiting"]), percent(slowest["others"])
        told.append(("Slowest worker", "{}: waits {}, the others {}".format(who, *waits)))
    return told


def _links(found: Links | None) -> str:
    if found is None:
        return ""
    rates = (LinkRate(source, target, rate or 0.0) for source, target, rate in found["rates"])
    return str(LinkRates(tuple(rates), found["more"]))


def _steered(news: News) -> list[str]:
    """Return what was changed while the run trained: settings alone name the last ones."""
    return [
        f"{entry['command']} {entry['detail']}".strip() + f" at {span(entry['time'])}"
        for entry in news.state["commands"]
        if entry["stage"] == "in force"
    ]


def _fact(name: str, text: str) -> str:
    shown = escape(shortened(text, MOST_TEXT))
    return f'<tr><th scope="row"{LEFT}>{name}</th><td{LEFT}>{shown}</td></tr>'


def _points(news: News) -> Iterator[tuple[str, str, npt.NDArray[np.float64]]]:
    """Yield name, split and points (time, samples, epoch, value) of each series that has any."""
    for head, buffer in zip(news.state["series"], news.buffers, strict=False):
        if head["length"]:
            points = np.frombuffer(buffer, "<f4").reshape(len(ROWS), -1).astype(np.float64)
            yield head["name"], head["split"], points


def _curves(news: News) -> dict[str, list[Curve]]:
    curves: defaultdict[str, list[Curve]] = defaultdict(list)
    for name, split, (_, samples, _, values) in _points(news):
        curves[name].append((split, samples, values))
    return dict(curves)


def _throughput(news: News) -> list[Curve]:
    """Return samples per second over time; they are 0 in a pause."""
    for name, split, (times, samples, _, _) in _points(news):
        count = min(INTERVALS, len(times) - 1)
        # Milestones of two workers may have come in another order than they were made.
        times = np.maximum.accumulate(times)
        if (name, split) == ("loss", "training") and count > 0 and times[-1] > times[0]:
            ends = np.linspace(times[0], times[-1], count + 1)
            rates = np.diff(np.interp(ends, times, samples)) / np.diff(ends)
            return [(split, (ends[1:] + ends[:-1]) / 2, rates)]
    return []


def _picture(curves: list[Curve], loss: float | None, ended: bool) -> str:
    drawn = chart(curves, "samples", "loss")
    if drawn:
        return f"<p>Loss over samples</p>\n{image(drawn, _alt('loss', curves, loss))}"
    return "" if ended else "<p>No loss yet.</p>"


def _others(metrics: dict[str, list[Curve]], throughput: list[Curve]) -> list[str]:
    shown = [(name, "samples", curves) for name, curves in metrics.items()][:MOST_METRICS]
    shown += [("samples per second", "seconds", throughput)] if throughput else []
    parts = []
    for name, over, curves in shown:
        timed = over == "seconds"
        if drawn := chart(curves, over, name, FEW, from_zero=timed):
            title = escape(f"{name} over {'time' if timed else over}".capitalize())
            parts.append(f"<p>{title}</p>\n{image(drawn, _alt(name, curves, None, over))}")
    names = escape(", ".join(name for name, _, _ in shown).capitalize())
    return _folded(names, parts) if parts else []


def _alt(name: str, curves: list[Curve], loss: float | None, over: str = "samples") -> str:
    """Return the curves in words; the training loss ends at the one that all readers show."""
    lines = []
    for label, _, y in curves:
        first, last = (short(float(value)) for value in y[[0, -1]])
        last = loss if label == "training" and loss is not None else last
        lines.append(f"{label} {name} from {words(first)} to {words(last)}")
    until = max(int(x[-1]) for _, x, _ in curves)
    return f"{'; '.join(lines)}; over {until:,} {over}.".capitalize()


def _is_stale(run: RunInfo) -> bool:
    """Whether pushes are merged one by one, so that their staleness is counted."""
    return not run["lockstep"] and run["combiner"] is not None


def _workers(rows: Sequence[Plain], run: RunInfo) -> str:
    if not rows:
        return ""
    unfit = {*(() if run["lockstep"] else TOGETHER), *(() if _is_stale(run) else APART)}
    columns = [c for c in COLUMNS if c[1] not in unfit]
    heads = "".join(f'<th scope="col"{_align(key)}>{name}</th>' for name, key in columns)
    lines = [
        "<tr>" + "".join(_cell(key, row[key]) for _, key in columns) + "</tr>"
        for row in rows[:MOST_ROWS]
    ]
    table = [TABLE, f"<tr>{heads}</tr>", *lines, "</table></div>"]
    if (more := len(rows) - MOST_ROWS) > 0:
        table.append(f"<p>… and {more} more workers: <code>run.workers</code></p>")
    return "\n".join(["<p><strong>Workers</strong></p>", *table])


def _align(key: str) -> str:
    return LEFT if key in TEXTS else ""


def _cell(key: str, value: Any) -> str:
    title = ""
    if key in TEXTS:
        text = escape(shortened(value, MOST_NAME))
        title = f' title="{escape(value)}"' if len(value) > MOST_NAME else ""
    elif key in ("sent", "received"):
        text = amount(value)
    elif key in TOGETHER:
        text = percent(value)
    elif key in ("partition", "epoch"):
        text = str(value)
    else:
        text = words(value)
    return f"<td{_align(key)}{title}>{text}</td>"


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
        parts.append(f"<pre>{escape(shortened(chr(10).join(error['frames']), MOST_TEXT))}</pre>")
    if error["rest"]:
        rest = escape(shortened(error["rest"], 2 * MOST_TEXT))
        parts.append("".join(_folded("Everything else", [f"<pre>{rest}</pre>"])))
    return "\n".join([*parts, "</div>"])
