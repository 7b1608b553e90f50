"""What the nodes of a cluster put out, and how far they are fed, as lines of text."""

from __future__ import annotations

from typing import TextIO

from ..nodes.runs import ClusterRun, Seen
from ..nodes.snapshot import fed
from ..readable import readable


class NodeLines:
    """Writes news of a cluster as plain lines.

    Parameters
    ----------
    run : ClusterRun
    stream : text file
    """

    def __init__(self, run: ClusterRun, stream: TextIO) -> None:
        self._run = run
        self._stream = stream
        self._seen: Seen = {}
        self._states: dict[str, str] = {}
        self._fed = ""

    def follow(self) -> None:
        """Write what is new until the cluster has ended."""
        while self._run.active:
            self._run.wait_for_news(lambda: not self._run.active or self._run.said(self._seen), 1.0)
            self.write()

    def write(self) -> None:
        """Write what is new."""
        lines = []
        for name, text in self._run.new_lines(self._seen):
            lines.append(f"[{name}] {text}")
        state = self._run.snapshot()
        for node in state["nodes"]:
            if self._states.get(node["name"], "waiting") != node["state"]:
                lines.append(f"{node['name']} on {node['host']}: {node['state']}")
            self._states[node["name"]] = node["state"]
        feed = state["feed"]
        if feed is not None and feed["epoch"] and (told := fed(feed)) != self._fed:
            self._fed = told
            lines.append(f"fed: {told}")
        if lines:
            self._stream.write("".join(f"{readable(line)}\n" for line in lines))
