"""`capture`: recognise what the user trains, and make it a portable program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar, cast

from ..common.checks import did_you_mean
from ..errors import CaptureError
from .export.base import Program
from .kinds import is_graph_element, is_keras, is_module

KEYWORDS = (
    *("labels", "weights", "class_weight", "preprocess"),
    *("loss", "feeds", "metrics", "optimizer", "predict"),
    *("session", "params", "learning_rate", "feed_dict", "predictions", "test_feed_dict"),
)
"""What `capture` takes of one kind of model or another: of Keras, of modules, of graphs."""

EXPECTED = (
    "Expected a compiled Keras model, a tf.Module or variables with a loss and an optimizer, or a "
    "train operation of a TF1-style graph"
)
"""What `capture` takes, for messages."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _with_keywords(function: Function) -> Function:
    """Name the options in the signature, which completion reads, without loading TensorFlow."""
    shown = inspect.signature(function)
    model, _ = shown.parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [inspect.Parameter(n, kind, default=None, annotation="Any") for n in KEYWORDS]
    cast(Any, function).__signature__ = shown.replace(parameters=[model, *options])
    return function


@_with_keywords
def capture(model: Any, **options: Any) -> Program:
    """Capture a model for training on Spark.

    Parameters
    ----------
    model : keras.Model, tf.Module, tf.Operation, tf.Tensor, list of them, or Program
        A compiled Keras 3 model; a module, a Keras layer or a list of variables, with a loss and
        an optimizer; or the train operation of a TF1-style graph.
    labels, weights, class_weight, preprocess : object, optional
        Of a compiled Keras model, as `tos_notebook.program.keras.program.KerasProgram` takes them.
    loss, feeds, metrics : object, optional
        Of a module or a graph, which says what each of them is.
    optimizer, predict : object, optional
        Of a module, a Keras model with your own loss, or variables, as
        `tos_notebook.program.module.program.ModuleProgram` takes them.
    session, params, learning_rate, feed_dict, predictions, test_feed_dict : object, optional
        Of a graph, as `tos_notebook.program.graph.program.GraphOptions` takes them.

    Returns
    -------
    Program
        It knows its parameters, and exports itself for given data.

    Raises
    ------
    CaptureError
        The model, or an option, cannot be captured; the message says why.

    Examples
    --------
    >>> program = capture(keras_model)                                        # doctest: +SKIP
    >>> program = capture(                                                    # doctest: +SKIP
    ...     module,
    ...     loss=lambda x, y: tf.reduce_mean((module(x) - y) ** 2),
    ...     optimizer=keras.optimizers.SGD(0.1),
    ...     feeds=[tf.TensorSpec([None, 784]), tf.TensorSpec([None, 1])],
    ... )
    >>> program = capture(train_op, feeds=[x, y_], loss=loss, session=sess)   # doctest: +SKIP
    """
    if isinstance(model, Program):
        _check_options(options, (), "A captured program")
        return model
    if is_module(model) or (is_keras(model) and "optimizer" in options):
        return _capture_module(model, options)
    if is_keras(model):
        from .keras.program import KerasProgram

        _check_options(options, _parameters(KerasProgram), "A Keras model")
        return KerasProgram(model, **options)
    return _capture_graph(model, options)


def _capture_module(module: Any, options: dict[str, Any]) -> Program:
    from .module.program import ModuleProgram

    _check_options(options, _parameters(ModuleProgram), "A module")
    missing = [name for name in ("loss", "optimizer", "feeds") if options.get(name) is None]
    if missing:
        raise CaptureError(
            f"A module needs {' and '.join(missing)}: capture(module, loss=lambda x, y: ..., "
            "optimizer=keras.optimizers.SGD(0.1), feeds=[tf.TensorSpec([None, 784]), ...])."
        )
    return ModuleProgram(module, **options)


def _capture_graph(train_op: Any, options: dict[str, Any]) -> Program:
    # The name of an operation comes with the graph's session.
    if isinstance(train_op, PurePath) or (isinstance(train_op, str) and "session" not in options):
        path = str(train_op)
        raise CaptureError(
            f"{EXPECTED}; got the text {path!r}. Load it first: keras.models.load_model({path!r})."
        )
    if not is_graph_element(train_op):
        raise CaptureError(f"{EXPECTED}; got {train_op!r} of type {type(train_op).__name__}.")
    from .graph.program import GraphOptions, GraphProgram

    _check_options(options, tuple(inspect.signature(GraphOptions).parameters), "A graph")
    missing = [name for name in ("feeds", "session") if options.get(name) is None]
    if missing:
        raise CaptureError(
            f"A graph needs {' and '.join(missing)}: "
            "capture(train_op, feeds=[x, y_], loss=loss, session=sess)."
        )
    return GraphProgram(train_op, GraphOptions(**options))


def _parameters(program: type[Program]) -> tuple[str, ...]:
    return tuple(inspect.signature(program).parameters)[1:]


def _check_options(options: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in options.keys() - set(known):
        takes = f"takes {', '.join(known)}" if known else "takes no options"
        raise CaptureError(f"{what} {takes}; got also {name!r}.{did_you_mean(name, known)}")
