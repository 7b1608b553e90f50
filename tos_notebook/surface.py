"""The first call of most users: train a model on Spark, all in one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from .cluster.connect import connect
from .cluster.executors import active_context
from .common.checks import boolean, refuse_unknown
from .common.console import is_noninteractive, quiet_stderr
from .common.told import OneLine
from .data.chosen import chosen, like
from .errors import ConfigError
from .magics import load_once, notebook_shell
from .program.capture import capture
from .program.kinds import is_keras
from .telemetry.progress import ProgressLine
from .training.beforehand import require_fitting, require_trainable
from .training.options import (
    OPTIONS,
    ObserverOptions,
    RunOptions,
    SessionOptions,
    by_own_name,
    offers,
    subset,
)
from .training.options.elsewhere import in_words
from .training.run import Run
from .training.session import train_once, wait_or_stop
from .training.unbuilt import is_unbuilt

EVERY = "30s"
"""How often a run is saved, if only the place for that is given."""


Function = TypeVar("Function", bound=Callable[..., Any])


def _refuses_parts(function: Function) -> Function:
    """Answer those who give arrays one by one, as to Keras, before Python does."""

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        apart = len(args) > 3 or (len(args) == 3 and ("epochs" in options or _is_array(args[2])))
        if apart or {"x", "y"} & options.keys():
            raise ConfigError(
                "fit: expected the arrays as one tuple, such as tos.fit(model, (x, y), epochs=5); "
                "got them one by one."
            )
        return function(*args, **options)

    return cast(Function, called)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list | tuple)


@_refuses_parts
@offers([each for name, each in OPTIONS.items() if name != "epochs"], aliases=True)
def fit(
    model: Any,
    data: Any,
    epochs: int = 1,
    *,
    features: Any = None,
    label: Any = None,
    spark: Any = None,
    class_weight: Mapping[int, float] | None = None,
    checkpoint_dir: str | None = None,
    wait: bool = True,
    verbose: bool = True,
    **options: Any,
) -> Run:
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
    features, label : str, sequence of str, or mapping of str to str, optional
        Columns of the DataFrame, as `tos_notebook.columns` takes them; of one among the validation
        data, too. Without, those that the model's inputs and labels are named as, or
        Spark ML's ``features`` and ``label``.
    spark : SparkSession or SparkContext, optional
        What `tos_notebook.connect` returns by default.
    class_weight : mapping of int to float, optional
        How much a row of each class counts in the loss, as for Keras's ``fit``; those that are not
        named count 1. For rows that count differently, capture the model with ``weights=True``.
    checkpoint_dir : str, optional
        Where checkpoints go, as for `TrainingSession`. They are written every 30 s, unless
        `checkpoint_every` says otherwise.
    wait : bool
        Whether to return when the run has ended, and not at once. An interrupt stops the run and
        keeps the weights.
    verbose : bool
        Whether to show how far the run is: in a notebook by its live view, else by a line of text.

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
    options = by_own_name(OPTIONS.values(), options)
    refuse_unknown("fit", options, OPTIONS, in_words)
    for name, value in {"wait": wait, "verbose": verbose}.items():
        boolean(name, value)
    settings, given = _checked(options | {"epochs": epochs}, checkpoint_dir)
    if class_weight is not None:
        model = _weighted(model, class_weight)
    data = chosen(data, features, label)
    if "validation_data" in given:
        given["validation_data"] = like(given["validation_data"], features, label)
    shell = notebook_shell()
    live = shell is not None and not is_noninteractive()
    if shell is not None:
        load_once(shell)
    if verbose and not live:
        given["sinks"] = (*given["sinks"], ProgressLine(sys.stdout))
    say = OneLine()
    if spark is None and active_context() is None:
        # What comes before the run takes seconds, in which nothing else would be said.
        model = model if is_unbuilt(model) else require_trainable(model, settings | given)
        if verbose:
            say("Starting Spark ...")
            with quiet_stderr():
                spark = connect(warm_up=False)
            say("Spark has started. The model is traced, and the first rows are read ...")
    run = train_once(spark, model, settings, data, given)
    say.end("Spark has started.")
    if verbose and live:
        run.show()
    if wait:
        wait_or_stop(run)
        if verbose and shell is not None and not live:
            # There is no view before the end.
            run.show()
    return run


def _checked(
    asked: Mapping[str, Any], checkpoint_dir: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a session is given, and what a run is; refuse it before Spark starts."""
    sinks = OPTIONS["sinks"].checked(asked.get("sinks", ()))
    given = subset(RunOptions, asked, none=True) | subset(ObserverOptions, asked, none=True)
    if checkpoint_dir is not None:
        given.setdefault("checkpoint_every", EVERY)
    elif "max_checkpoints" in given and "checkpoint_every" not in given:
        raise ConfigError(
            "max_checkpoints: expected checkpoint_dir with it, since nothing is saved without; got "
            'none. Say where checkpoints go, such as checkpoint_dir="hdfs:///runs".'
        )
    require_fitting({**asked, **given}, checkpoint_dir)
    settings = subset(SessionOptions, asked, none=True) | {"checkpoint_dir": checkpoint_dir}
    return settings, given | {"sinks": sinks}


def _weighted(model: Any, class_weight: Mapping[int, float]) -> Any:
    """Return a model, captured with how much its classes count."""
    if not is_keras(model):
        raise ConfigError(
            "class_weight: expected a compiled Keras model with it, got "
            f"{type(model).__name__}. Capture the model with it: tos.capture(model, "
            "class_weight=...)."
        )
    if is_unbuilt(model):
        raise ConfigError(
            f"class_weight: expected a model that has its weights, got {model.name!r} without. "
            "Give it a keras.Input, or call it once on a batch."
        )
    return capture(model, class_weight=class_weight)
