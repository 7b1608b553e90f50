"""Refuse what cannot be trained as it is asked for, before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..program.capture import capture
from ..program.export.base import Program
from .fitting import require_apart, require_dealt
from .launching import captured, refuse_without_state, require_directory
from .observers.schedule import checked_rate
from .options import ObserverOptions, RunOptions, SessionOptions, pick


def require_fitting(asked: Mapping[str, Any], checkpoint_dir: str | None) -> None:
    """Refuse options that are out of range, or do not go together, whatever is trained.

    Parameters
    ----------
    asked : mapping of str
        Options of a session, a run and its observers, by name.
    checkpoint_dir : str or None

    Raises
    ------
    ConfigError, CombinerError, CodecError
        The message begins with the option.
    """
    run = pick(RunOptions, asked).checked()
    pick(ObserverOptions, asked).checked(run.validation_split)
    session = pick(SessionOptions, asked).checked()
    require_apart(session.strategy, run)
    require_dealt(session.strategy.sampling, run)
    if run.every is not None:
        require_directory(checkpoint_dir, run)
        session.strategy.settings(session.combiner, session.codec).require_saveable()


def require_trainable(program: Any, asked: Mapping[str, Any]) -> Program:
    """Return a model, captured; refuse options that do not go with it.

    Parameters
    ----------
    program : Program or keras.Model
        It has its weights.
    asked : mapping of str
        As in `require_fitting`, and in range.

    Raises
    ------
    CaptureError, ConfigError, UnsupportedProgram
        It cannot be captured, or cannot be trained so.
    """
    made = capture(program)
    session = pick(SessionOptions, asked).checked()
    if (rate := asked.get("learning_rate")) is not None:
        checked_rate(rate, made)
    refuse_without_state(captured(made, session), session)
    return made
