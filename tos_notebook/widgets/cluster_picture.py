"""A TensorFlow cluster as text and HTML, for notebooks that are read where no widget runs."""

from __future__ import annotations

import time
from html import escape

from ..nodes.runs import ClusterRun
from ..nodes.snapshot import ClusterState, fed
from ..readable import all_readable, counted, shortened
from .failure import in_parts
from .news import Failure
from .numbers import span
from .picture import alarm
from .picture_workers import LEFT, MOST_NAME, MOST_ROWS, TABLE
from .workers import OVER

MOST_LINE = 500
"""Characters of one line of a node's output that are shown."""


class ClusterNews(ClusterState):
    """What a view shows of a cluster."""

    failure: Failure | None
    """Its error in parts."""


class ClusterPicture:
    """How a cluster stands or ended, as it is displayed.

    Parameters
    ----------
    run : ClusterRun
    """

    def __init__(self, run: ClusterRun) -> None:
        self._run = run

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return bundle(news(self._run))

    def __repr__(self) -> str:
        return plain(news(self._run))


def news(run: ClusterRun) -> ClusterNews:
    """Return a cluster as it stands, its texts fit to be shown."""
    state, failure = run.snapshot(), None
    if error := state["error"]:
        failure = in_parts(error["message"], error["where"], error["frames"])
    found: ClusterNews = all_readable({**state, "failure": failure})
    return found


def bundle(found: ClusterNews) -> dict[str, str]:
    """Return ``text/html`` and ``text/plain`` of a cluster."""
    return {"text/html": html(found), "text/plain": plain(found)}


def plain(found: ClusterNews) -> str:
    """Return a cluster in a few lines of text."""
    lines = [_title(found)]
    if error := found["failure"]:
        where = f" ({error['where']})" if error["where"] else ""
        lines += [f"  {error['message']}{where}", *error["frames"]]
    lines += [f"  {note}" for note in found["notes"]]
    if feed := found["feed"]:
        lines.append(f"  Fed: {fed(feed)}")
    for node in found["nodes"]:
        host = f" on {node['host']}" if node["host"] else ""
        rows = f", {node['rows']:,} rows" if node["rows"] else ""
        lines.append(f"  {node['name']}{host}: {node['state']}{rows}")
        lines += [f"    {line}" for line in node["lines"]]
    return "\n".join(lines)


def html(found: ClusterNews) -> str:
    """Return a cluster as HTML without styles of its own: it suits light and dark pages."""
    feed = found["feed"]
    parts = [
        f'<div class="tos-result" data-state="{escape(found["state"])}" '
        'style="overflow-wrap:anywhere">',
        f"<p><strong>{escape(_title(found))}</strong></p>",
        f"<p>{escape(moment)}</p>" if (moment := _moment(found)) else "",
        alarm(found["failure"]),
        *(f"<p>{escape(note)}</p>" for note in found["notes"]),
        f"<p>Fed: {escape(fed(feed))}</p>" if feed else "",
        TABLE,
        "<tr>" + "".join(f'<th scope="col"{LEFT}>{name}</th>' for name in _COLUMNS) + "</tr>",
        *(_row(found, i) for i in range(min(MOST_ROWS, len(found["nodes"])))),
        "</table></div>",
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


_COLUMNS = ("Node", "Host", "State", "Rows", "GPU", "Last lines")


def _row(found: ClusterNews, index: int) -> str:
    node = found["nodes"][index]
    lines = "\n".join(shortened(line, MOST_LINE) for line in node["lines"])
    cells = [
        *(escape(shortened(text, MOST_NAME)) for text in (node["host"], node["state"])),
        f"{node['rows']:,}" if found["feed"] else "",
        escape(node["gpus"] or "none"),
        f'<pre style="font-family:monospace;margin:0;white-space:pre-wrap">{escape(lines)}</pre>'
        if lines
        else "",
    ]
    head = f'<th scope="row"{LEFT}>{escape(node["name"])}</th>'
    return "<tr>" + head + "".join(f"<td{LEFT}>{cell}</td>" for cell in cells) + "</tr>"


def _title(found: ClusterNews) -> str:
    nodes = counted(len(found["nodes"]), "node")
    return (
        f"TensorFlow cluster {found['number']}: {found['state']}, {nodes}, {span(found['elapsed'])}"
    )


def _moment(found: ClusterNews) -> str:
    """Return as of when a cluster that runs is shown: a notebook may be saved then."""
    if found["state"] in OVER:
        return ""
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return f"The cluster as it was at {when}, while it was still active."
