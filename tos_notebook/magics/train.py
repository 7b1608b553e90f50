"""``%%tos_train``: from a cell to a run in view."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.display import display

from ..common.console import quiet_stderr
from ..errors import InvalidTransition, TosError
from ..readable import counted
from ..training.options import RunOptions, SessionOptions, subset
from ..training.results.settings import RunSettings
from . import arguments, find
from .cell import refuse_empty, run_cell
from .find import Names
from .program import Captured, captured
from .text import say, training

CLOSE_TIMEOUT = 10.0
"""Seconds for what follows a run's end: closing its session, drawing its last picture."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that a magic started.

    Parameters
    ----------
    run : Run
    closer : Thread
        Closes its session when it has ended.
    """

    run: Any
    closer: threading.Thread


class Trainer:
    """Starts runs from cells, and knows which cell started which.

    Parameters
    ----------
    shell : InteractiveShell
    connection : Connection
    """

    def __init__(self, shell: Any, connection: Any) -> None:
        self._shell = shell
        self._connection = connection
        self._by_cell: dict[object, Launched] = {}

    def train(self, options: Namespace, line: str, cell: str | None) -> None:
        """Capture, start, and show.

        Parameters
        ----------
        options : Namespace
            With no default left out.
        line : str
            The magic's line.
        cell : str or None
            The cell's body; None for a line.

        Raises
        ------
        UsageError
            The body is empty, data are missing, or an option does not fit.
        """
        self._connection.raise_once()
        if cell is not None:
            refuse_empty(cell, line)
        if not options.data:
            raise UsageError(
                "%%tos_train: expected the training data, such as --data train where train is an "
                "RDD of (features, label), --data x,y where x and y are arrays, or --data df "
                "--features x --label y for columns of a DataFrame."
            )
        key = cell_key(self._shell, line, cell)
        before = self._by_cell.get(key)
        if before is not None and before.run.active and not self._settle(before, options):
            return
        # Often it is here that TensorFlow is imported first.
        with quiet_stderr():
            names = self._names(line, cell)
            options.learning_rate, rate = arguments.learning_rate(names, options.learning_rate)
            launched = self._launch(captured(names, options), names, options, rate)
        self._by_cell = {k: v for k, v in self._by_cell.items() if v.run.active}
        self._by_cell[key] = launched
        _show(launched, options)

    def _names(self, line: str, cell: str | None) -> Names:
        space = self._shell.user_ns
        if cell is None:
            return Names(space)
        return Names(space, run_cell(self._shell, cell, f"%%tos_train {line}".rstrip()))

    def _launch(self, made: Captured, names: Names, options: Namespace, rate: Any) -> Launched:
        from ..telemetry.progress import ProgressLine
        from ..training.session import TrainingSession

        wanted = subset(RunOptions, vars(options)) | arguments.given(names, options)
        if rate is not None:
            wanted["learning_rate"] = rate
        spark = self._connection.ensure(self._shell.user_ns)
        strategy = find.strategy(self._shell.user_ns, options.strategy)
        settings = subset(SessionOptions, vars(options)) | {"strategy": strategy}
        if options.combiner is not None:
            settings["combiner"] = find.combiner(self._shell.user_ns, options.combiner)
        if options.checkpoint:
            settings["directory"] = options.checkpoint
            wanted["checkpoint_every"] = arguments.every(options.checkpoint_every)
        else:
            del wanted["checkpoint_every"], wanted["keep"]
        sinks = [ProgressLine(sys.stdout)] if is_noninteractive() else []
        session = TrainingSession(spark, made.program, **settings)
        try:
            run = session.start(sinks=sinks, **wanted)
        except BaseException:
            session.close()
            raise
        # After what refuses options and data.
        fed = _fed(wanted["data"], made.program.feeds)
        made = replace(made, by_gradients=session.program.gradients)
        say(*made.lines(options.optimizer_state), *fed, _plan(options, run.settings))
        return self._keep(run, session, options)

    def resume(self, options: Namespace) -> None:
        """Continue a saved run, and show it.

        Raises
        ------
        UsageError
            A run of this notebook is named, too.
        """
        from .. import widgets
        from ..training import resume

        if options.run is not None:
            raise UsageError(
                "%tos_resume: expected a saved run's URI, or --run for one of this notebook that "
                f"is paused; got both, {options.uri} and {options.run}."
            )
        space = self._shell.user_ns
        names = Names(space)
        given = subset(RunOptions, vars(options)) | arguments.observing(names, options)
        for option in ("data", "validation"):
            if getattr(options, option):
                given[option] = find.data(names, f"--{option}", getattr(options, option))
        if options.model:
            given["program"] = names.get("--model", options.model)
        if options.combiner:
            given["combiner"] = find.combiner(space, options.combiner)
        if options.learning_rate:
            variable, given["learning_rate"] = arguments.learning_rate(names, options.learning_rate)
            if variable is not None:
                raise UsageError(
                    "%tos_resume: --learning-rate: expected a number, or a variable that holds a "
                    f"schedule; got {variable!r}. A graph's variable is saved with the run."
                )
        with quiet_stderr():
            spark = self._connection.ensure(space)
            run = resume.resume(options.uri, spark=spark, **given)
        space[options.output or "run"] = run
        say(f"Run {run.number} continues {run.run_id}, from its last checkpoint.")
        if not is_noninteractive():
            widgets.view(run).show()

    def _keep(self, run: Any, session: Any, options: Namespace) -> Launched:
        def close() -> None:
            with suppress(TosError):
                run.wait()
            session.close()

        self._shell.user_ns[options.output] = run
        closer = threading.Thread(target=close, name=f"tos-close-{run.number}", daemon=True)
        closer.start()
        return Launched(run, closer)

    def _settle(self, before: Launched, options: Namespace) -> bool:
        """Decide about the run that the same cell started; return whether to start another."""
        from .. import widgets

        run = before.run
        text = f"Run {run.number} of this cell is {run.state}."
        choice = ask(text, "run") if options.if_running == "ask" else options.if_running
        if choice == "attach":
            self._shell.user_ns[options.output] = run
            widgets.view(run).show()
            return False
        _stop(run)
        say(f"Run {run.number} is {run.state}; its weights are kept.")
        return bool(choice == "replace")


def cell_key(shell: Any, line: str, cell: str | None) -> object:
    """Return what tells a cell from others: its id where the front end sends one.

    A cell may hold several lines, but only one body.

    Parameters
    ----------
    shell : InteractiveShell
    line : str
        The magic's line.
    cell : str or None
        The cell's body; None for a line.
    """
    from ..lab.targets import cell_id

    named = cell_id(shell)
    return named if named and cell is not None else (named, line, cell)


def _show(launched: Launched, options: Namespace) -> None:
    """Show a run while it trains; in batch jobs, say what became of it."""
    from .. import widgets

    run = launched.run
    if is_noninteractive():
        if _wait(launched, options):
            display(widgets.Result(run))
        return
    view = widgets.view(run)
    view.show()
    if options.wait and _wait(launched, options):
        # So that the cell ends with the picture that a saved notebook shows.
        view.wait(CLOSE_TIMEOUT)


def _fed(data: Any, feeds: Any) -> list[str]:
    if not hasattr(data, "mapping"):
        return []
    pairs = ", ".join(f"{name} -> {port}" for name, port in data.mapping(feeds))
    return [f"  {'columns':<11}{pairs}"]


def _plan(options: Namespace, settings: RunSettings) -> str:
    # The user's own words, and what the session has chosen where there are none.
    combiner = options.combiner or getattr(settings.combiner, "name", None)
    return (
        f"Training {counted(options.epochs, 'epoch')} on {options.data}, "
        f"{training(settings)}, codec {options.codec}"
        + (f", combiner {combiner}" if combiner else "")
        + (f", validation on {options.validation}" if options.validation else "")
    )


def is_noninteractive() -> bool:
    """Whether cells run in a batch job: papermill, nbval, continuous integration."""
    return os.environ.get("TOS_NONINTERACTIVE", "0") not in ("", "0")


def ask(state: str, what: str) -> str:
    """Ask what to do with what a cell has started before.

    Parameters
    ----------
    state : str
        A sentence that says how it stands.
    what : str
        What it is, in one word.

    Raises
    ------
    UsageError
        The front end cannot ask.
    """
    words = ("attach", "replace", "stop")
    while True:
        try:
            answer = input(f"{state} attach, replace or stop? [attach] ").strip().lower()
        except (EOFError, OSError, StdinNotImplementedError):
            raise UsageError(
                f"{state} Say what to do with the {what}: --if-running attach (look at it), "
                "replace (stop it and start again) or stop."
            ) from None
        chosen = [word for word in words if word.startswith(answer or "attach")]
        if chosen:
            return chosen[0]


def _wait(launched: Launched, options: Namespace) -> bool:
    """Wait for a run's end; return whether it was reached.

    Raises
    ------
    TosError
        What ended the run.
    """
    run = launched.run
    try:
        run.wait()
    except KeyboardInterrupt:
        if options.on_interrupt == "stop":
            _stop(run)
            say(f"Interrupted: run {run.number} is {run.state}; its weights are kept.")
        else:
            say(
                f"Interrupted: no longer waiting, but run {run.number} continues. %tos_stop stops "
                "it and keeps the weights, %tos_status says how far it is."
            )
        return False
    finally:
        if not run.active:
            launched.closer.join(CLOSE_TIMEOUT)
    return True


def _stop(run: Any) -> None:
    try:
        run.stop()
    except InvalidTransition:
        # It was ending by itself.
        with suppress(TosError):
            run.wait()
