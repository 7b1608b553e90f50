"""The exercises of ``11_tensorflow_cluster.ipynb``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exercise import exercise, expect

PLACES = {
    "variables": "ps",
    "gradients": "worker",
    "step": "ps",
}
"""The job of each part of the in-graph program."""

KINDS = {"a": "in-graph", "b": "between-graph", "c": "between-graph", "d": "in-graph"}
"""The kind of replication that each sentence is about."""


@exercise("tensorflow_cluster.places")
def places(jobs: Mapping[str, Any]) -> str:
    """Check which job of the cluster has each part of the in-graph program."""
    expect(
        isinstance(jobs, Mapping) and set(jobs) == set(PLACES),
        f"Give a job for each of {', '.join(PLACES)}.",
    )
    missing = [part for part in PLACES if jobs[part] is None]
    expect(not missing, f"No job yet for {', '.join(missing)}.")
    expect(
        jobs["gradients"] != "ps",
        "gradients: the parameter server would then compute, and the workers would have no work.",
    )
    expect(
        jobs["step"] != "worker",
        "step: a tf.device is above the line that applies the gradients. Which job does it name?",
    )
    wrong = [part for part, job in PLACES.items() if jobs[part] != job]
    expect(not wrong, f"Look again at {', '.join(wrong)}: which tf.device is above it?")
    return (
        "The parameters stay on the server. Workers get their values, and send gradients back: "
        "TensorFlow adds these messages where a line of the graph crosses from task to task."
    )


@exercise("tensorflow_cluster.replication")
def replication(kinds: Mapping[str, Any]) -> str:
    """Check which kind of replication each sentence is about."""
    expect(
        isinstance(kinds, Mapping) and set(kinds) == set(KINDS),
        f"Give a kind for each of {', '.join(KINDS)}.",
    )
    missing = [name for name in KINDS if kinds[name] is None]
    expect(not missing, f"No kind yet for {', '.join(missing)}.")
    unknown = [name for name in KINDS if kinds[name] not in KINDS.values()]
    expect(not unknown, f"{', '.join(unknown)}: write 'in-graph' or 'between-graph'.")
    wrong = [name for name, kind in KINDS.items() if kinds[name] != kind]
    expect(
        not wrong,
        f"Look again at {', '.join(wrong)}. How many programs build a graph, and how many sessions "
        "run steps?",
    )
    return (
        "In between-graph replication no program has to know all workers. So it grows to many of "
        "them, and a worker can continue while another one is gone."
    )
