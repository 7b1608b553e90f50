"""Look at runs and steer them: what the short magics do."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..chaos.rules import in_words
from ..chaos.words import as_rules
from ..common.checks import did_you_mean
from ..errors import ConfigError, TosError
from ..readable import counted, numbered
from ..steering.actions import ACTIONS, Action, When
from ..steering.conditions import VALIDATION
from ..steering.machine import Command
from ..steering.source import commands_from
from ..steering.status import evaluated
from ..training.options import AUTO, OPTIONS, as_typed, by_own_name
from ..training.options.elsewhere import of_set
from .find import is_cluster, named
from .text import say, training

if TYPE_CHECKING:
    import pandas as pd

    from ..nodes.runs import ClusterRun

WHEN: Mapping[When, str] = {
    When.NOW: "now",
    When.MILESTONE: "from each worker's next milestone on",
    When.EPOCH: "from its next epoch on",
}

COLUMNS = ("state", "epoch", "epochs", "milestones", "samples", "loss", "elapsed")
"""Of `runs_table`."""


def all_runs() -> list[Any]:
    """Return the runs of this process, oldest first."""
    from ..training import factory

    return list(factory.runs())


def find_run(namespace: Mapping[str, Any], name: str | None) -> Any:
    """Return the run of a variable, a number, an id or a name; the newest if none is given.

    Of runs of one name it is the newest.

    Raises
    ------
    ConfigError
        No run was started, or none has that name.
    """
    runs = all_runs()
    if not runs:
        raise ConfigError("No run was started yet. Start one with %%tos_train.")
    if name is None:
        return runs[-1]
    variable = namespace.get(name)
    known = {run.name: run for run in runs}
    known |= {key: run for run in runs for key in (str(run.number), run.run_id)}
    for run in runs:
        if run is variable:
            return run
    if name in known:
        return known[name]
    numbers = ", ".join(numbered(run.number, run.name) for run in runs)
    raise ConfigError(
        f"Expected a run's variable, name or number, got {name!r}. There are runs {numbers}; "
        "%tos_runs lists them."
    )


def find_cluster(
    namespace: Mapping[str, Any], name: str | None, started: Sequence[ClusterRun]
) -> ClusterRun | None:
    """Return the TensorFlow cluster that is meant; None if it is a run.

    Parameters
    ----------
    namespace : mapping of str
        The notebook's.
    name : str or None
        A cluster's variable. Without a name the newest is meant where no run was started.
    started : sequence of ClusterRun
        Oldest first.
    """
    if name is None:
        return started[-1] if started and not all_runs() else None
    found = namespace.get(name)
    return found if is_cluster(found) else None


def stop_cluster(cluster: ClusterRun) -> None:
    """End all nodes of a cluster, and say so."""
    cluster.stop()
    say(f"Cluster {cluster.number} is {cluster.state}.")


def cluster_status(cluster: ClusterRun) -> None:
    """Say where the cluster and its nodes stand."""
    from .. import widgets

    say(str(widgets.ClusterPicture(cluster)))


ALSO_SET: Mapping[str, Command] = {
    "combiner": Command.SWAP_COMBINER,
    "partitions": Command.REPARTITION,
}
"""Settings of ``%tos_set`` that are commands of their own."""

SETTINGS = (*(a.name for a in ACTIONS[Command.SET].arguments), *ALSO_SET, "strategy")
"""All that ``%tos_set`` takes."""


def act(action: Action, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Do what a magic asks of a run, and say so."""
    run = find_run(namespace, options.run)
    typed = dict(getattr(options, "settings", ()))
    with commands_from(f"%{action.magic}"), as_typed(typed):
        for asked, given in _parts(action, options):
            _ask(run, asked, given, namespace, "settings" in options)


def _parts(action: Action, options: Namespace) -> list[tuple[Action, dict[str, Any]]]:
    """Return the commands that a magic stands for, each with what it is given, by name."""
    if "settings" not in options:
        given = {a.name: getattr(options, a.name) for a in action.arguments}
        return [(action, {name: value for name, value in given.items() if value is not None})]
    texts = by_own_name(OPTIONS.values(), dict(options.settings), texts=True)
    if "strategy" in texts:
        # A strategy comes with settings of its own.
        swap = ACTIONS[Command.SWAP_STRATEGY]
        return [(swap, {name: _setting(action, swap, name, texts[name]) for name in texts})]
    alone = [(ACTIONS[ALSO_SET[n]], {n: texts.pop(n)}) for n in ALSO_SET if n in texts]
    found = [(action, texts)] if texts else []
    return [
        (each, {name: _setting(action, each, name, text) for name, text in given.items()})
        for each, given in found + alone
    ]


def _ask(
    run: Any,
    action: Action,
    given: dict[str, Any],
    namespace: Mapping[str, Any],
    with_names: bool,
) -> None:
    from ..widgets.control import perform

    if with_names:
        what = ", ".join(f"{name}={value}" for name, value in given.items())
    else:
        what = ", ".join(
            counted(value, name.removesuffix("s")) if isinstance(value, int) else str(value)
            for name, value in given.items()
        )
    said, number = action.said, numbered(run.number, run.name)
    given = {name: named(namespace, name, value) for name, value in given.items()}
    if action.command is Command.CHAOS:
        what = in_words(as_rules(**given))
        if what == "off" and not run.active:
            say(f"Run {number} is {run.state}, and no longer has chaos.")
            return
        if what == "off":
            said = "Run {number} has no chaos, {when}."
    perform(run, action, given)
    say(said.format(number=number, state=run.state, what=what, when=WHEN[action.when]))


def _setting(typed: Action, action: Action, name: str, text: str) -> Any:
    """Return the value of a command's setting, for the magic that was typed."""
    kinds = {argument.name: argument.kind for argument in action.arguments}
    if name not in kinds and any(name == argument.name for argument in typed.arguments):
        raise ConfigError(
            f"%{typed.magic}: {name} changes at the next milestone, and a strategy at the next "
            f"epoch. Set it in a separate line: %{typed.magic} {name}={text}"
        )
    if name not in kinds:
        if said := of_set(name):
            raise ConfigError(f"%{typed.magic}: unknown setting {name!r}. It {said}")
        known = SETTINGS if action is typed else [*kinds]
        hint = did_you_mean(name, known) or f" It sets {' and '.join(known)}."
        raise ConfigError(f"%{typed.magic}: unknown setting {name!r}.{hint}")
    if name == "sync_interval" and text == AUTO:
        # The run says why it cannot be.
        return text
    try:
        return kinds[name](text)
    except ValueError:
        expected = "a whole number" if kinds[name] is int else "a number"
        raise ConfigError(f"{name}: expected {expected}, got {text!r}.") from None


def status(run: Any) -> None:
    """Say where the run stands."""
    now, settings = run.status, run.settings
    rate = settings.learning_rate
    called = run.run_id if run.name is None else f"{run.name}, {run.run_id}"
    loss = f", loss {now.loss:.3g}" if now.milestones else ""
    stale = "" if math.isnan(now.staleness) else f", staleness {now.staleness:.1f}"
    validated = ", ".join(f"{name} {value:.3g}" for name, value in now.validation.items())
    if validated and now.validations_left_out:
        validated += f", evaluations {evaluated(now.validations, now.validations_left_out)}"
    say(
        f"Run {run.number} ({called}) is {now.state}: epoch {now.epoch} of {now.epochs}, "
        f"{now.elapsed:.1f} s",
        *([f"  validation {validated}"] if validated else []),
        f"  {counted(now.milestones, 'milestone')}, {counted(now.samples, 'sample')}, "
        f"{now.samples_per_second:,.0f} samples/s{loss}{stale}",
        f"  {training(settings)}, codec {settings.codec}"
        + ("" if settings.combiner is None else f", combiner {settings.combiner!r}")
        + ("" if rate is None else f", learning rate {rate}"),
    )
    if now.links.busiest:
        say(f"  links: {now.links}")
    for shard in now.shards:
        say(f"  {shard}")
    if now.reason is not None:
        say(f"  {now.state}: {now.reason}")
    if settings.chaos:
        say(f"  CHAOS is on: {in_words(settings.chaos)}. %tos_chaos off ends it.")
    if now.rows_skipped:
        say(f"  {counted(now.rows_skipped, 'row')} of the data left out; run.skipped has which")
    for line in (*now.pending, *now.lost, *now.waits_for, *now.notes, *filter(None, [now.advice])):
        say(f"  {line}")
    error = failure(run)
    if error is not None:
        say(f"  {type(error).__name__}: {error}")


def failure(run: Any) -> TosError | None:
    """Return what ended a run, if it failed."""
    if run.active:
        return None
    try:
        run.wait()
    except TosError as error:
        return error
    return None


def runs_table() -> pd.DataFrame | None:
    """Return a row for each run of this process; None, and say so, if there is none."""
    import pandas as pd

    runs = all_runs()
    if not runs:
        say("No run was started yet. Start one with %%tos_train.")
        return None
    numbers = pd.Index([run.number for run in runs], name="number")
    return pd.DataFrame(list(map(_row, runs)), index=numbers)


def _row(run: Any) -> dict[str, Any]:
    """Return a run as the table has it, its numbers as people read them."""
    now = run.status
    row = {"name": run.name or "", "run": run.run_id}
    row |= {column: getattr(now, column) for column in COLUMNS}
    row["elapsed"] = round(now.elapsed, 1)
    values = {"loss": now.loss, **{f"{VALIDATION}{n}": v for n, v in now.validation.items()}}
    return row | {name: float(f"{value:.4g}") for name, value in values.items()}


def saved_runs(uri: str, spark: Any) -> Any:
    """Return the runs that are saved in a directory; None, and say so, if there is none."""
    from ..training import saved

    found = saved.runs(uri, spark=spark)
    if not found:
        say(f"{uri} has no saved run. %%tos_train --checkpoint-dir {uri} saves one.")
        return None
    return found
