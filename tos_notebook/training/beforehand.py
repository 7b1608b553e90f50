"""Refuse what cannot be trained as it is asked for, before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..blocks.feeds import check_columns
from ..data.source import as_source, has_labels, is_at_hand
from ..errors import ConfigError
from ..program.capture import capture
from ..program.export.base import Program
from ..program.kinds import is_keras
from .fitting import require_apart, require_dealt
from .launching import captured, refuse_without_state, require_directory, weighted
from .observers.metric_names import names_metrics, require_metrics
from .observers.schedule import checked_rate
from .observers.validation import rows_that_fit
from .options import CallOptions, ObserverOptions, RunOptions, SessionOptions, pick
from .unbuilt import build, is_unbuilt


def require_fitting(asked: Mapping[str, Any], checkpoint_dir: str | None) -> None:
    """Refuse options that are out of range, or do not go together, whatever is trained.

    Parameters
    ----------
    asked : mapping of str
        Options of a session, a run, its observers and the call, by name.
    checkpoint_dir : str or None

    Raises
    ------
    ConfigError, CombinerError, CodecError
        The message begins with the option.
    """
    run = pick(RunOptions, asked).checked()
    pick(ObserverOptions, asked).checked(run.validation_split)
    pick(CallOptions, asked).checked()
    session = pick(SessionOptions, asked).checked()
    require_apart(session.strategy, run)
    require_dealt(session.strategy.sampling, run)
    if run.every is not None:
        require_directory(checkpoint_dir, run)
        session.strategy.settings(session.combiner, session.codec).require_saveable()


def require_weighable(model: Any, class_weight: Mapping[int, float] | None) -> None:
    """Refuse weights of classes for what has none.

    Raises
    ------
    ConfigError
        It is no Keras model, and no program.
    """
    if class_weight is not None and not (is_keras(model) or isinstance(model, Program)):
        raise ConfigError(
            "class_weight: expected a compiled Keras model with it, got "
            f"{type(model).__name__}. Capture the model with it: tos.capture(model, "
            "class_weight=...)."
        )


def require_trainable(program: Any, asked: Mapping[str, Any], data: Any = None) -> Any:
    """Return a model, captured; refuse options and data that do not go with it.

    A model without weights gets them by the data, if Spark is not needed for that; else it is
    returned as it is.

    Parameters
    ----------
    program : Program or keras.Model
    asked : mapping of str
        As in `require_fitting`, and in range.
    data : object, optional
        What is trained on; see `TrainingSession.start`. Without, no rows are looked at.

    Raises
    ------
    CaptureError, ConfigError, UnsupportedProgram
        It cannot be captured, or cannot be trained so.
    DataError, ShapeMismatch
        Rows that the driver holds do not fit.
    """
    at_hand = data is not None and is_at_hand(data)
    if is_unbuilt(program):
        if not at_hand:
            return program
        build(program, None, data)
    made = capture(program)
    weighted(made, asked.get("class_weight"))
    _require_known(made, asked)
    session = pick(SessionOptions, asked).checked()
    if (rate := asked.get("learning_rate")) is not None:
        checked_rate(rate, made)
    trained = captured(made, session)
    refuse_without_state(trained, session)
    if at_hand:
        _require_rows(trained, data)
    rows = None if data is None else asked.get("validation_data")
    if rows is not None and is_at_hand(rows):
        trained.require_measuring()
        rows_that_fit(None, rows, trained, asked.get("validation_on", "driver"))
    return made


def _require_rows(program: Program, data: Any) -> None:
    """Refuse rows that the driver holds, and that do not fit a program."""
    program.with_labels(has_labels(data, program.feeds))
    source = as_source(None, data, 1, program.feeds)
    program.with_labels(has_labels(source, program.feeds))
    check_columns(source.columns, program.feeds)


def _require_known(program: Program, asked: Mapping[str, Any]) -> None:
    """Refuse the name of a metric that the model was not compiled with."""
    split = asked.get("validation_split")
    options = pick(ObserverOptions, asked).checked(split)
    trained = program.expected_names() if names_metrics(options) else None
    if trained is None:
        return
    if split is not None:
        # Rows that are still to be drawn.
        options = replace(options, validation_data=split)
    require_metrics(options, trained, program.measured_names(trained))
