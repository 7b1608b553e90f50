"""``%%tos_train``: from a cell to a run in view."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.display import display

from ..common.console import is_noninteractive, quiet_stderr
from ..readable import counted
from ..training.options import OPTIONS, SessionOptions, for_resume, subset
from ..training.results.settings import RunSettings
from . import arguments
from .cell import TRAIN, run_cell
from .find import Names
from .launcher import CLOSE_TIMEOUT, Launcher
from .parsers import OUTPUT, PARSERS
from .program import Captured, captured
from .text import front_end, say, told_at_once, training

if TYPE_CHECKING:
    from ..training.run import Run

FLAGS = PARSERS["tos_train"].flags

BEGINS = "Running the cell's code, to train what it makes ..."
LINE_BEGINS = "Capturing what is to be trained ..."
PREPARES = "Preparing the run ..."
NOT_BEGUN = "No run was started."

APART = ("wait", "verbose")
"""Options that this module sees to: it has a view to show, and an interrupt to ask about."""

LATER = "%tos_stop stops it and keeps the weights, %tos_status says how far it is."


class RunLauncher(Launcher):
    """Starts runs from cells; see `Launcher`."""

    header, what, variable, kept = TRAIN, "run", OUTPUT, "; its weights are kept"

    def _check(self, options: Namespace) -> None:
        if not options.data:
            raise UsageError(
                "%%tos_train: expected the training data. Use --data train for an RDD of "
                "(features, label), --data x,y for arrays, or --data df --features x --label y for "
                "columns of a DataFrame."
            )
        arguments.check(options, FLAGS)

    def _start(self, options: Namespace, line: str, cell: str | None) -> Run:
        if options.name is None and options.output != OUTPUT:
            options.name = options.output
        begins = LINE_BEGINS if cell is None else BEGINS
        with told_at_once(front_end(self._shell), begins, NOT_BEGUN) as tell:
            names = self._names(line, cell)
            # The cell's own code may have made it.
            self._require_free(options)
            options.learning_rate, rate = arguments.learning_rate(names, options.learning_rate)
            made = captured(names, options)
            tell.now(PREPARES)
            with arguments.as_options(FLAGS):
                run, title, lines = self._launch(made, names, options, rate)
            # A batch job has no view, so its log shows every line.
            if is_noninteractive():
                say(*lines)
            else:
                tell(title, *lines)
        return run

    def _names(self, line: str, cell: str | None) -> Names:
        space = self._shell.user_ns
        if cell is None:
            return Names(space)
        return Names(space, run_cell(self._shell, cell, f"{TRAIN} {line}".rstrip()))

    def _launch(
        self, made: Captured, names: Names, options: Namespace, rate: Any
    ) -> tuple[Run, str, tuple[str, ...]]:
        """Start the run; return it with what to tell of it: a title and lines."""
        from ..training.beforehand import require_fitting, require_trainable, require_weighable
        from ..training.session import train_once
        from ..training.shown import with_line

        wanted = arguments.asked(names, options, FLAGS)
        wanted |= {} if rate is None else {"learning_rate": rate}
        if "checkpoint_dir" not in wanted:
            del wanted["checkpoint_every"], wanted["max_checkpoints"]
        data = wanted.pop("data")
        require_fitting(wanted, wanted.get("checkpoint_dir"))
        require_weighable(made.program, wanted.get("class_weight"))
        # Where Spark runs already, the session looks at them as soon.
        rows = data if self._connection.starts(self._shell.user_ns) else None
        known = require_trainable(made.program, wanted, rows)
        if known.validation is not None:
            wanted["validation_data"] = known.validation
        spark = self._connection.ensure(self._shell.user_ns)
        settings = subset(SessionOptions, wanted)
        settings |= {n: wanted[n] for n in ("checkpoint_dir",) if n in wanted}
        shown = is_noninteractive() and options.verbose is not False
        sinks = with_line(tuple(wanted.get("sinks", ())), shown)
        given = {n: v for n, v in wanted.items() if n not in {*settings, *APART}}
        rows = data if known.data is None else known.data
        run = train_once(spark, made.program, settings, rows, given | {"sinks": sinks})
        # After what refuses options and data.
        fed = _fed(data, made.program.feeds)
        made = replace(made, by_gradients=run.program.gradients, rule=_rule(run.settings))
        lines = (*made.lines(options.optimizer_state), *fed, _plan(options, run.settings))
        title = f"{made.title}, {_what(options)}"
        return run, " ".join(filter(None, (made.origin, title))), lines

    def resume(self, options: Namespace) -> None:
        """Continue a saved run, and show it."""
        from ..training import resume

        self._require_free(options, "%tos_resume")
        names, flags = Names(self._shell.user_ns), PARSERS["tos_resume"].flags
        given = arguments.asked(names, options, flags)
        if options.model:
            given["program"] = names.get("--model", options.model)
        if options.shards is not None:
            given["shards"] = options.shards
        if options.learning_rate:
            variable, given["learning_rate"] = arguments.learning_rate(names, options.learning_rate)
            if variable is not None:
                raise UsageError(
                    "%tos_resume: --learning-rate: expected a number, or a variable that holds a "
                    f"schedule; got {variable!r}. A graph's variable is saved with the run."
                )
        given = {name: value for name, value in given.items() if name not in APART}
        if is_noninteractive() and options.verbose is not False:
            given["verbose"] = True
        with quiet_stderr(), arguments.as_options(flags):
            wanted = for_resume({n: v for n, v in given.items() if n in OPTIONS})
            resume.require_model(given.get("program"), wanted)
            spark = self._connection.ensure(self._shell.user_ns)
            run = resume.resume(options.uri, spark=spark, **given)
        self._bind(run, options)
        say(f"Run {run.number} continues {run.run_id}, from its last checkpoint.")
        if not is_noninteractive():
            self._show(run, options)
        elif options.wait:
            self._wait(run, options, LATER)

    def _show(self, run: Any, options: Namespace) -> None:
        from .. import widgets

        if is_noninteractive():
            if self._wait(run, options, LATER):
                display(widgets.Result(run))
            return
        view = None if options.verbose is False else widgets.view(run)
        if view is not None:
            view.show()
        if options.wait and self._wait(run, options, LATER) and view is not None:
            # So that the cell ends with the picture that a saved notebook shows.
            view.wait(CLOSE_TIMEOUT)


def _fed(data: Any, feeds: Any) -> list[str]:
    if not hasattr(data, "mapping"):
        return []
    pairs = ", ".join(f"{name} -> {port}" for name, port in data.mapping(feeds))
    return [f"  {'columns':<11}{pairs}"]


def _rule(settings: RunSettings) -> str:
    """Return what makes the steps in place of the program's optimizer; empty where nothing does."""
    size = settings.own.get("step_size")
    if size is None:
        return ""
    rate = settings.learning_rate
    return f"MLlib's step rule, {size if rate is None else rate:g} / sqrt(iteration)"


def _plan(options: Namespace, settings: RunSettings) -> str:
    # The user's own words, and what the session has chosen where there are none.
    combiner = options.combiner or getattr(settings.combiner, "name", None)
    validated = _validated(options)
    return (
        f"Training {_what(options, validated=False)}, "
        f"{training(settings)}, codec {options.codec}"
        + (f", combiner {combiner}" if combiner else "")
        + (f", validation on {validated}" if validated else "")
    )


def _what(options: Namespace, validated: bool = True) -> str:
    text = f"{counted(options.epochs, 'epoch')} on {options.data}"
    on = _validated(options) if validated else None
    return f"{text}, validation on {on}" if on else text


def _validated(options: Namespace) -> str | None:
    share = options.validation_split
    return options.validation_data if share is None else f"{100 * share:g} % of its rows"
