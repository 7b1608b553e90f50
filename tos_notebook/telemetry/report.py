"""A run as one HTML page that needs no network and no kernel."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from os import PathLike
from pathlib import Path

from ..readable import amount, counted, readable
from ..steering.links import LinkRates, end_of_link
from .figure import figure
from .history import History

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
th, td {{ border: 0; border-bottom: 1px solid #ddd; padding: .25rem .75rem; text-align: right; }}
h1, th, td {{ overflow-wrap: anywhere; }}
.facts th, .facts td {{ text-align: left; }}
.scroll {{ overflow-x: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
<table class="facts">
{facts}
</table>
<h2>Training</h2>
{figure}
{steered}<h2>Workers</h2>
<div class="scroll">{workers}</div>
{links}</body>
</html>
"""


def write_report(
    path: str | PathLike[str], history: History, title: str, facts: Mapping[str, str]
) -> Path:
    """Write one self-contained page: facts, figure, workers. plotly.js is inside (about 5 MB).

    Parameters
    ----------
    path : path-like
        The file; missing directories are made, an old file is replaced.
    history : History
        The run.
    title : str
        Plain text, as are the facts: markup in them is escaped.
    facts : mapping of str to str
        Rows of the first table, such as the accuracy reached.

    Returns
    -------
    pathlib.Path
        The absolute path of the file.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    page = _PAGE.format(
        title=escape(readable(title)),
        facts="\n".join(_fact(name, value) for name, value in facts.items()),
        figure=figure(history).to_html(full_html=False, include_plotlyjs=True),
        steered=_steering_table(history),
        workers=_workers_table(history),
        links=_links_table(history.links()),
    )
    target.write_text(page, encoding="utf-8")
    return target


def _fact(name: str, value: str) -> str:
    return f"<tr><th>{escape(readable(name))}</th><td>{escape(readable(value))}</td></tr>"


def _links_table(found: LinkRates) -> str:
    """Return what each link carried at last; nothing where none is known."""
    if not found.busiest:
        return ""
    rows = "\n".join(
        f"<tr><td>{end_of_link(source)}</td><td>{end_of_link(target)}</td>"
        f"<td>{amount(rate)}</td></tr>"
        for source, target, rate in found.busiest
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("from", "to", "bytes a second"))
    more = f"<p>And {counted(found.more, 'link')} more.</p>\n" if found.more else ""
    return f"<h2>Links</h2>\n<table>\n<tr>{heads}</tr>\n{rows}\n</table>\n{more}"


def _steering_table(history: History) -> str:
    """Return what the run was told; nothing if it was told nothing."""
    table = history.steered()._repr_html_()
    return "" if table is None else f'<h2>Steering</h2>\n<div class="scroll">{table}</div>\n'


def _workers_table(history: History) -> str:
    table = history.workers()
    if not history.stale:
        table = table.drop(columns=["staleness_mean", "staleness_max"])
    formats = {
        "executor": readable,
        "host": readable,
        "samples_per_second": "{:,.0f}".format,
        "waited": "{:.2f}".format,
        "staleness_mean": "{:.2f}".format,
        "loss": "{:.4f}".format,
    }
    # The first row is for people; everywhere else columns have the names of `Run.workers`.
    heads = {name: name.replace("_", " ") for name in table.columns}
    shown = {heads[name]: show for name, show in formats.items() if name in heads}
    html: str = table.rename(columns=heads).to_html(index=False, border=0, formatters=shown)
    return html
