"""One line on what a run is worth: what its still picture begins with."""

from __future__ import annotations

from collections.abc import Iterator

from ..readable import numbered
from .axes import clock
from .news import News, Totals
from .numbers import short, words


def headline(news: News) -> str:
    """Return a run's name and state, how far it came, and its results, validation first."""
    run, totals = news.state["run"], news.state["totals"]
    epoch = run["epochs"] if run["state"] == "finished" else run["epoch"]
    parts = [
        f"Run {numbered(run['number'], run['name'])}: {run['state']}, "
        f"epoch {epoch} of {run['epochs']} in {clock(round(run['elapsed']))}",
        *_validation(totals),
    ]
    if totals["loss"] is not None:
        parts.append(f"loss {words(totals['loss'])}")
    if totals["samples_per_second"] and totals["samples"]:
        parts.append(f"{words(short(totals['samples_per_second'], 3))} samples/s")
    return " · ".join(parts)


def _validation(totals: Totals) -> Iterator[str]:
    for name, value in totals["validation"].items():
        best = totals["best"].get(name)
        of = f" (best {words(best['value'])}, epoch {best['epoch']})" if best else ""
        yield f"validation {name} {words(value)}{of}"
