"""The first call of most users: train a model on Spark, all in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

from .cluster.connect import connect
from .cluster.executors import active_context
from .common.console import is_noninteractive, quiet_stderr
from .data.chosen import chosen, like
from .errors import ConfigError
from .magics import load_once, notebook_shell
from .magics.text import say, told_at_once
from .magics.train import NOT_BEGUN, PREPARES
from .training.beforehand import require_fitting, require_trainable, require_weighable
from .training.options import (
    OPTIONS,
    CallOptions,
    ObserverOptions,
    RunOptions,
    SessionOptions,
    named,
    names_as_typed,
    offers,
    pick,
    subset,
)
from .training.options.call import EVERY
from .training.run import Run
from .training.session import train_once
from .training.shown import wait_or_stop, with_line

Function = TypeVar("Function", bound=Callable[..., Any])


def _refuses_parts(function: Function) -> Function:
    """Answer those who give arrays one by one, as to Keras, before Python does."""

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        apart = len(args) > 2 and (_is_array(args[2]) or (len(args) == 3 and "epochs" in options))
        if apart or {"x", "y"} & options.keys():
            raise ConfigError(
                "fit: expected the arrays as one tuple, such as tos.fit(model, (x, y), epochs=5); "
                "got them one by one."
            )
        if len(args) > 3:
            raise ConfigError(
                "fit: expected options by name, such as tos.fit(model, (x, y), epochs=5, "
                f"batch_size=32); got {args[3]!r:.40} without a name."
            )
        return function(*args, **options)

    return cast(Function, called)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list | tuple)


STARTS = "Starting Spark ..."
STARTED = "Spark has started. The model is traced, and the first rows are read ..."

SHOWN = {"wait": True, "verbose": True}
"""Options that have another default here."""


@names_as_typed
@_refuses_parts
@offers(
    [replace(o, default=SHOWN.get(n, o.default)) for n, o in OPTIONS.items() if n != "epochs"],
    aliases=True,
)
def fit(model: Any, data: Any, epochs: int = 1, *, spark: Any = None, **options: Any) -> Run:
    """Train a model on Spark, and return the run.

    It connects to Spark if you have not, and closes its session. All other options of a run are
    options here. `TrainingSession` trains one program run after run.

    Parameters
    ----------
    model : keras.Model or Program
        Compiled, or as `tos_notebook.capture` returns it. Afterwards it has the trained weights.
    data : tuple of ndarray, RDD of tuple, DataFrame, TFRecord files, or callable
        What `TrainingSession.start` takes, such as a DataFrame of Spark or pandas with `features`
        and `label`, lists, or a `tf.data.Dataset`.
    epochs : int
        Passes over the data.
    spark : SparkSession or SparkContext, optional
        What `tos_notebook.connect` returns by default.

    Raises
    ------
    ConfigError, DataError, ShapeMismatch, CaptureError, UnsupportedProgram
        Options, data or model do not fit; nothing was started.
    ConnectError
        Spark does not start, or does not answer.
    TosError
        What ended the run, if it failed while this waited.

    Examples
    --------
    >>> run = tos.fit(model, (x, y), epochs=5, batch_size=32)                 # doctest: +SKIP
    >>> run.evaluate(x_test, y_test)                                          # doctest: +SKIP
    """
    asked = SHOWN | named("fit", options) | {"epochs": epochs}
    call = pick(CallOptions, asked).checked()
    settings, given = _checked(asked, call)
    require_weighable(model, call.class_weight)
    data = chosen(data, call.features, call.label)
    if "validation_data" in given:
        given["validation_data"] = like(given["validation_data"], call.features, call.label)
    shell = notebook_shell()
    live = shell is not None and not is_noninteractive()
    if shell is not None:
        load_once(shell)
    given["sinks"] = with_line(given["sinks"], call.verbose and not live)
    starts = spark is None and active_context() is None
    if starts:
        # What comes before the run takes seconds: nothing is said before what can be refused.
        model, data, validation = require_trainable(model, settings | given, data)
        if validation is not None:
            given["validation_data"] = validation
    begins = STARTS if starts else PREPARES
    with told_at_once(shell if call.verbose and live else None, begins, NOT_BEGUN) as tell:
        if starts and call.verbose:
            spark = _started_spark(live)
            tell.now(STARTED)
        run = train_once(spark, model, settings, data, given)
        tell.end("The run has started.")
    if call.verbose and live:
        run.show()
    if call.wait:
        wait_or_stop(run)
        if call.verbose and shell is not None and not live:
            # There is no view before the end.
            run.show()
    return run


def _started_spark(live: bool) -> Any:
    """Start Spark; say so in lines where no view counts the seconds."""
    if not live:
        say(STARTS)
    with quiet_stderr():
        spark = connect(warm_up=False)
    if not live:
        say(STARTED)
    return spark


def _checked(asked: Mapping[str, Any], call: CallOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a session is given, and what a run is; refuse it before Spark starts."""
    sinks = OPTIONS["sinks"].checked(asked.get("sinks", ()))
    given = subset(RunOptions, asked, none=True) | subset(ObserverOptions, asked, none=True)
    directory = call.checkpoint_dir
    if directory is not None:
        # None, if it is given, saves nothing.
        given.setdefault("checkpoint_every", EVERY)
    require_fitting({**asked, **given}, directory)
    settings = subset(SessionOptions, asked, none=True) | {"checkpoint_dir": directory}
    return settings, given | {"sinks": sinks, "class_weight": call.class_weight}
