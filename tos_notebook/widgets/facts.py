"""What a view shows of a run that its events do not tell."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Mapping

from ..chaos.words import WORDS
from ..codecs.registry import names
from ..combiners.registry import COMBINERS, GROUPS
from ..steering.actions import ACTIONS, Action
from ..steering.shards import ShardLoad
from ..steering.sync import EXAMPLES
from ..strategies.registry import STRATEGIES, choices
from ..training.run import Run
from .news import Facts, InForce, Plain
from .numbers import short

OFFERS: Mapping[str, Iterable[str]] = {
    "combiner": COMBINERS,
    "sync": EXAMPLES,
    "codec": names(),
    "chaos": WORDS,
    "strategy": choices(),
}
"""What there is to choose from, by what an `Argument` offers."""

GROUPED = {"combiner": {group: [rule.name for rule in rules] for group, rules in GROUPS.items()}}
"""The same in groups, where there are many."""

ABOUT = {
    "combiner": {name: rule.when for name, rule in COMBINERS.items()},
    "strategy": {name: kind.summary for name, kind in STRATEGIES.items()},
}
"""A sentence about each."""


class RunFacts:
    """Reads settings and names of a run; remembers them once the run is gone.

    It does not keep the run: a view that was never closed would keep its whole history.

    Attributes
    ----------
    actions : mapping of Action
        The commands that the run obeys now, by name: views offer these.
    """

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)
        self.actions: Mapping[str, Action] = {}
        self._own_rate = run.own_rate
        self._rate: float | None = None
        self._rate_before: float | None = None
        self._known: Facts = {
            "id": run.run_id,
            "number": run.number,
            "name": run.name,
            "has_learning_rate": run.has_learning_rate,
            "master": run.master,
            "program": run.program.summary,
            "model_bytes": run.program.layout.nbytes,
            "measures": [n for n in run.program.expected_names() or () if n != "loss"],
            **self._now(run),
        }

    @property
    def run(self) -> Run | None:
        """The run, if anybody else still holds it."""
        return self._run()

    @property
    def active(self) -> bool:
        """Whether the run continues."""
        run = self.run
        return run is not None and run.active

    def __call__(self) -> Facts:
        """Return what is in force now."""
        run = self.run
        if run is None:
            return self._known | {"chaos": [], "shards": []}
        self._known = {**self._known, **self._now(run)}
        return self._known

    def _now(self, run: Run) -> InForce:
        found = _in_force(run, self._own_rate)
        rate = found["learning_rate"] or found["own_rate"]
        if rate != self._rate:
            self._rate, self._rate_before = rate, self._rate
        found["rate_before"] = self._rate_before
        self.actions = {n: a for n, a in ACTIONS.items() if a.command in run.commands}
        # Where pushes are not merged, nothing depends on how far workers are apart.
        unfit = {"sync"} if found["lockstep"] or found["combiner"] is None else set()
        unfit |= {"sync_interval"} if found["sync_interval"] is None else set()
        described = [_described(a, unfit) for a in self.actions.values()]
        return {**found, "actions": described}


def _in_force(run: Run, own_rate: float | None) -> InForce:
    settings = run.settings
    rate, interval = settings.learning_rate, settings.sync_interval
    return {
        "strategy": settings.strategy_text,
        "lockstep": settings.lockstep,
        "continues": settings.own.get("on_loss") == "continue",
        "combiner": None if settings.combiner is None else settings.combiner.name,
        "sync": settings.sync,
        "codec": settings.codec,
        "sync_interval": interval,
        "batch_size": settings.batch_size,
        "learning_rate": None if rate is None else short(float(rate), 6),
        # A strategy that draws samples makes the step itself.
        "own_rate": None if interval is None else short(own_rate, 6),
        "validates": run.validates,
        "shards": [_served(shard) for shard in run.shards],
        "chaos": [str(rule) for rule in settings.chaos],
        "chaos_log": [str(rule) for rule in run.chaos_log],
    }


def _served(shard: ShardLoad) -> Plain:
    """Return a shard as a row of the workers' table; what only workers have is None."""
    alone = ("partition", "epoch", "samples", "samples_per_second", "age")
    stale = ("staleness", "staleness_mean", "staleness_max")
    return {
        **dict.fromkeys((*alone, *stale)),
        "key": f"shard {shard.number}",
        "executor": f"shard {shard.number}",
        "host": shard.host,
        "milestones": shard.merged,
        "cpu": short(shard.cpu, 3),
        "memory": shard.memory or None,
        "sent": shard.total_sent,
        "received": shard.total_received,
        "state": "serving",
        "lost": 0,
        "note": "",
    }


def _described(action: Action, unfit: Container[str]) -> Plain:
    """Return a command as a form, without settings that the strategy does not leave open."""
    fields = [
        {
            "name": argument.name,
            "label": argument.label,
            "kind": argument.kind.__name__,
            "choices": list(OFFERS.get(argument.offers, ())),
            "groups": GROUPED.get(argument.offers, {}),
            "about": ABOUT.get(argument.offers, {}),
            "optional": argument.optional,
        }
        for argument in action.arguments
        if argument.label and argument.name not in unfit
    ]
    name = str(action.command)
    return {"name": name, "verb": action.verb or name.capitalize(), "arguments": fields}
