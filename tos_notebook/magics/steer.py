"""Look at runs and steer them: what the short magics do."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from ..chaos.rules import describe
from ..chaos.words import as_rules
from ..common.checks import did_you_mean
from ..errors import ConfigError, TosError
from .find import combiner
from .text import counted, say

if TYPE_CHECKING:
    import pandas as pd

SETTINGS: Mapping[str, type] = {
    "learning_rate": float,
    "sync_interval": int,
    "sync": str,
    "codec": str,
}
"""What ``%tos_set`` sets, and of which type it is."""

COLUMNS = ("run", "state", "epoch", "epochs", "milestones", "samples", "loss", "elapsed")
"""Of `runs_table`."""


def all_runs() -> list[Any]:
    """Return the runs of this process, oldest first."""
    from ..training import factory

    return list(factory.runs())


def find_run(namespace: Mapping[str, Any], name: str | None) -> Any:
    """Return the run of a variable, a number or an id; the newest if none is named.

    Raises
    ------
    ConfigError
        There is no run, or none of that name.
    """
    runs = all_runs()
    if not runs:
        raise ConfigError("There is no run yet. Start one with %%tos_train.")
    if name is None:
        return runs[-1]
    named = namespace.get(name)
    for run in runs:
        if run is named or name in (str(run.number), run.run_id):
            return run
    numbers = ", ".join(str(run.number) for run in runs)
    raise ConfigError(
        f"--run: expected a run's variable or number, got {name!r}. There are runs {numbers}; "
        "%tos_runs lists them."
    )


def pause(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Let every worker wait."""
    run.pause()
    say(
        f"Asked run {run.number} to pause, at each worker's next milestone. "
        "%tos_resume continues it."
    )


def resume(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Go on."""
    run.resume()
    say(f"Run {run.number} continues.")


def stop(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """End the run and keep the weights."""
    run.stop()
    say(f"Run {run.number} is {run.state}. Its weights are kept, in the model and in the run.")


def repartition(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Lay the data out anew."""
    run.repartition(options.partitions)
    count = counted(options.partitions, "partition")
    say(f"Asked run {run.number} for {count}, from its next epoch on.")


def swap_combiner(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Merge by another rule."""
    run.swap_combiner(combiner(namespace, options.combiner))
    say(f"Asked run {run.number} for {options.combiner}, from each worker's next milestone on.")


def change(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Change settings."""
    values = {name: _setting(name, text) for name, text in options.settings}
    run.set(**values)
    asked = ", ".join(f"{name}={value}" for name, value in values.items())
    say(f"Asked run {run.number} for {asked}, from each worker's next milestone on.")


def chaos(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Let something go wrong on purpose, or end it."""
    given = {name: value for name, value in vars(options).items() if name != "run"}
    rules = as_rules(**given)
    run.chaos(*rules)
    if not rules:
        say(f"There is no chaos in run {run.number}, from each worker's next milestone on.")
        return
    say(
        f"CHAOS in run {run.number}, from each worker's next milestone on: {describe(rules)}.",
        "%tos_chaos off ends it, and so does the run's end.",
    )


def _setting(name: str, text: str) -> Any:
    kind = SETTINGS.get(name)
    if kind is None:
        hint = did_you_mean(name, SETTINGS) or f" It sets {' and '.join(SETTINGS)}."
        raise ConfigError(f"%tos_set: there is no setting {name!r}.{hint}")
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise ConfigError(f"{name}: expected {expected}, got {text!r}.") from None


def status(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Say where the run stands."""
    now, settings = run.status, run.settings
    rate = settings["learning_rate"]
    loss = f", loss {now.loss:.3g}, staleness {now.staleness:.1f}" if now.milestones else ""
    validated = ", ".join(f"{name} {value:.3g}" for name, value in now.validation.items())
    say(
        f"Run {run.number} ({run.run_id}) is {now.state}: epoch {now.epoch} of {now.epochs}, "
        f"{now.elapsed:.1f} s",
        *([f"  validation {validated}"] if validated else []),
        f"  {counted(now.milestones, 'milestone')}, {counted(now.samples, 'sample')}, "
        f"{now.samples_per_second:,.0f} samples/s{loss}",
        f"  batch size {settings['batch_size']}, sync interval {settings['sync_interval']}, "
        f"sync {settings['sync']}, codec {settings['codec']}, combiner {settings['combiner']!r}"
        + ("" if rate is None else f", learning rate {rate}"),
    )
    if now.reason is not None:
        say(f"  {now.state}: {now.reason}")
    if settings["chaos"]:
        say(f"  CHAOS is on: {describe(settings['chaos'])}. %tos_chaos off ends it.")
    if now.rows_skipped:
        say(f"  {counted(now.rows_skipped, 'row')} of the data left out; run.skipped has which")
    for line in (*now.waits_for, *now.notes):
        say(f"  {line}")
    error = failure(run)
    if error is not None:
        say(f"  {type(error).__name__}: {error}")


def view(run: Any, namespace: Mapping[str, Any], options: Namespace) -> None:
    """Show the live view of a run, or how it ended."""
    from .. import widgets

    widgets.view(run).show()


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
        say("There is no run yet. Start one with %%tos_train.")
        return None
    rows = [[getattr(run.status, column) for column in COLUMNS] for run in runs]
    numbers = pd.Index([run.number for run in runs], name="number")
    return pd.DataFrame(rows, columns=list(COLUMNS), index=numbers)


def saved_runs(uri: str, spark: Any) -> Any:
    """Return the runs that are saved in a directory; None, and say so, if there is none."""
    from ..training import saved

    found = saved.runs(uri, spark=spark)
    if not found:
        say(f"There is no saved run in {uri}. %%tos_train --checkpoint {uri} saves one.")
        return None
    return found


def require_uri(options: Namespace) -> None:
    """Refuse what only goes with a saved run.

    Raises
    ------
    UsageError
        There is some of it, and no URI.
    """
    given = [
        name.replace("_", "-")
        for name, value in vars(options).items()
        if name not in ("run", "uri") and value is not None
    ]
    if given:
        raise UsageError(
            f"%tos_resume: --{given[0]} goes with a saved run: %tos_resume URI --{given[0]} ... "
            "Without a URI it ends a pause. %tos_runs URI lists what is saved."
        )


ACTIONS: Mapping[str, Callable[[Any, Mapping[str, Any], Namespace], None]] = {
    "tos_status": status,
    "tos_view": view,
    "tos_pause": pause,
    "tos_resume": resume,
    "tos_stop": stop,
    "tos_repartition": repartition,
    "tos_combiner": swap_combiner,
    "tos_set": change,
    "tos_chaos": chaos,
}
"""What the magics do with a run, by their names."""
