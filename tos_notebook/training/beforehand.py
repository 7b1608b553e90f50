"""Refuse what cannot be trained as it is asked for, before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..blocks.block import NUMERIC, describe
from ..blocks.feeds import check_columns, check_values
from ..common.arrays import is_text
from ..data.arrays import checked_arrays
from ..data.datasets import columns_of, is_dataset
from ..data.source import about, as_arrays, has_labels, is_held
from ..errors import ConfigError
from ..program.capture import capture
from ..program.export.base import Program
from ..program.kinds import is_keras
from .fitting import require_apart, require_dealt
from .launching import (
    captured,
    refuse_without_checkpoints,
    refuse_without_state,
    require_directory,
    weighted,
)
from .observers.metric_names import names_metrics, require_metrics
from .observers.schedule import checked_rate
from .observers.validation import require_place
from .options import CallOptions, ObserverOptions, RunOptions, SessionOptions, pick
from .unbuilt import build, is_unbuilt

FED = NUMERIC + "O"
"""Kinds of dtypes that arrays may have: numbers, and text."""


class Trainable(NamedTuple):
    """What can be trained, as far as it is known before Spark starts.

    Parameters
    ----------
    program : Program or keras.Model
        Captured, unless it gets its weights by data that need Spark.
    data, validation : object
        As they were given, or as arrays.
    """

    program: Any
    data: Any
    validation: Any


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
    else:
        refuse_without_checkpoints(run)


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


def require_trainable(program: Any, asked: Mapping[str, Any], data: Any = None) -> Trainable:
    """Return a model, captured, and its data; refuse options and data that do not go with it.

    A model without weights gets them by the data, if Spark is not needed for that; else it is
    returned as it is. Rows that the driver holds become arrays here, so that nothing converts them
    again.

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
        Rows that the driver holds, or those of a dataset, do not fit.
    """
    validation = asked.get("validation_data")
    seen = data is not None and (is_held(data) or is_dataset(data))
    if is_unbuilt(program):
        if not seen:
            return Trainable(program, data, validation)
        build(program, None, data)
    made = capture(program)
    weighted(made, asked.get("class_weight"))
    _require_known(made, asked)
    session = pick(SessionOptions, asked).checked()
    if (rate := asked.get("learning_rate")) is not None:
        checked_rate(rate, made)
    trained = captured(made, session)
    refuse_without_state(trained, session)
    if seen:
        data = _looked_at(trained, data)
    if data is not None and validation is not None:
        trained.require_measuring()
        place = asked.get("validation_on", "driver")
        with about("validation_data"):
            validation = _looked_at(trained, validation, "validation_data", place)
    return Trainable(made, data, validation)


def _looked_at(program: Program, data: Any, use: str = "", place: str = "driver") -> Any:
    """Return data, converted if the driver holds their rows; refuse rows that do not fit."""
    if not use:
        program.with_labels(has_labels(data, program.feeds))
    if is_dataset(data):
        check_columns(columns_of(data, program.feeds), program.feeds)
    if not is_held(data):
        return data
    arrays = checked_arrays(as_arrays(data, program.feeds, use), FED)
    check_columns(describe(arrays), program.feeds)
    if not any(map(is_text, arrays)):
        check_values(arrays, program.feeds, "Row")
        require_place(place, held=True)
    return arrays


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
