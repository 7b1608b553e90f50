"""What a user may have beside a run's training: validation, callbacks, event files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .callbacks import following
from .companions import Maker
from .program.base import Program
from .validation import validation_rows, validator


@dataclass(frozen=True, slots=True)
class Beside:
    """Checked, and not begun.

    Parameters
    ----------
    makers : tuple of callable
        Each makes a companion of the run.
    learning_rate : float or None
        To begin with; None for the program's own.
    """

    makers: tuple[Maker, ...]
    learning_rate: float | None


def attached(
    sc: Any,
    program: Program,
    *,
    validation: Any = None,
    callbacks: Any = (),
    on_callback_error: str = "disable",
) -> Beside:
    """Check what is wanted beside a run; see `TrainingSession.start`.

    Raises
    ------
    ConfigError, DataError, ShapeMismatch
        Something does not fit; nothing was begun.
    """
    makers: list[Maker] = []
    rate = None
    rows = None if validation is None else validation_rows(sc, validation, program)
    if callbacks:
        # They evaluate for themselves: what they are told is of the parameters they find.
        follow, rate = following(callbacks, program, rows, on_callback_error)
        makers.append(follow)
    elif rows is not None:
        makers.append(validator(rows))
    return Beside(tuple(makers), rate)
