"""Values that completion offers whatever the notebook holds, each with a word about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Offers = dict[str, str]
"""What may stand there, and a word about each."""

MOST = 60
"""Characters of a word."""

LEAST = 20
"""Characters of a clause that says enough by itself."""

_SYNC = {
    "asp": "no worker waits for another",
    "ssp:1": "wait when more than 1 milestone ahead of the slowest",
    "ssp:3": "wait when more than 3 milestones ahead of the slowest",
    "ssp:10": "wait when more than 10 milestones ahead of the slowest",
    "bsp": "all wait for all, at every milestone",
    "async": "the same as asp",
    "bounded:3": "the same as ssp:3",
    "sync": "the same as bsp",
}

_CHAOS = {
    "slow": "a worker computes several times slower",
    "pause": "a worker waits for so many seconds in each milestone",
    "kill": "a worker's process dies",
    "off": "end what is in force",
}

_TIMES = {
    "30s": "every 30 seconds",
    "5min": "every 5 minutes",
    "500": "every 500 milestones",
    "2epochs": "at the end of every second epoch",
}

_INTERVALS = {
    "auto": "chosen by measurement",
    "1": "after each batch",
    "10": "by default with ps",
    "100": "rarely, for slow networks",
}

_VARIANTS = {
    "ps:shards=2": "2 tasks of Spark hold the parameters, not the driver",
    "ps:shards=4": "4 tasks of Spark hold the parameters, not the driver",
    "ps:locking=false": "workers on the driver's host merge without locks: Hogwild",
    "allreduce:gradients": "the mean of gradients at each step: synchronous SGD",
    "allreduce:parameters": "the mean of parameters, each with its own steps",
    "allreduce:ring": "workers in a ring, each with its neighbors",
    "allreduce:direct": "each worker with each other, in 2 rounds",
    "allreduce:halving": "workers in pairs: few rounds for many workers",
    "allreduce:two_level": "within a machine first, then between machines",
    "allreduce:star": "through the driver, where workers cannot reach each other",
    "tensorflow:sync": "TF1 graphs: all workers' gradients make one step",
}
"""A word about what is chosen behind the colon."""

_CONDITIONS = {
    "loss<0.1": "the mean loss of the latest milestones",
    "minutes>=10": "the time since the start",
    "val_accuracy>0.98": "a metric of the validation data",
}

CHOICES = {
    "ask": "ask in the notebook",
    "attach": "show the run that is active",
    "driver": "here, which gets the rows once",
    "executors": "where the rows are, in free slots",
    "keep": "a worker keeps its own",
    "leave": "the run continues",
    "partitions": "each partition keeps its rows, in a new order",
    "raise": "end with an error",
    "replace": "stop the active run first",
    "reset": "a worker begins again with none",
    "skip": "leave it out and continue",
    "stop": "stop the run and keep the weights",
}
"""A word about what an option may be that has nothing but some words."""

_BEST = {"val_loss": "the least loss of the validation data"}

_MASTERS = {
    "local[2]": "2 cores of this machine",
    "local[*]": "all cores of this machine",
    "spark://host:7077": "a standalone cluster",
    "yarn": "a Hadoop cluster",
    "k8s://https://host:443": "a Kubernetes cluster",
}


def _combiners() -> Offers:
    from ..combiners.registry import describe

    return {row["name"]: brief(row["when"]) for row in describe()}


def _codecs() -> Offers:
    from ..codecs.registry import describe

    return {row["example"]: brief(row["when"]) for row in describe()}


def _strategies() -> Offers:
    from ..strategies.registry import choices, describe

    summaries = {row["name"]: brief(row["summary"]) for row in describe()}
    return {name: _VARIANTS.get(name) or summaries[name.partition(":")[0]] for name in choices()}


_MADE: Mapping[str, Callable[[], Offers]] = {
    "combiner": _combiners,
    "codec": _codecs,
    "strategy": _strategies,
    "sync": lambda: _SYNC,
    "chaos": lambda: _CHAOS,
    "every": lambda: _TIMES,
    "interval": lambda: _INTERVALS,
    "best": lambda: _BEST,
    "condition": lambda: _CONDITIONS,
    "master": lambda: _MASTERS,
}


def offers(kind: str) -> Offers:
    """Return what an option of a kind takes; nothing where that depends on the notebook."""
    return _MADE[kind]() if kind in _MADE else {}


def brief(text: str) -> str:
    """Return the beginning of a text that says the most: a clause of one line."""
    # A shorter clause says too little by itself, such as "a DataFrame: ...".
    end = re.compile(r"; | \(|: |\. ").search(text, LEAST)
    text = (text[: end.start()] if end else text).rstrip(".")
    return text if len(text) <= MOST else f"{text[: MOST - 1].rstrip()}…"
