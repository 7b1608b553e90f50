"""What a run had beside it, which no checkpoint holds: a resumed run says what it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..blocks.source import DataSource
from ..events import Event, Validated
from .checkpoint.contents import Origin
from .options import ObserverOptions


def held_out_rows(
    options: ObserverOptions, origin: Origin, held_out: DataSource | None
) -> tuple[ObserverOptions, tuple[str, ...]]:
    """Return the options with the rows that are only evaluated; say so if these are not there."""
    if origin.options.validation_split is None or options.validation_data is not None:
        return options, ()
    if held_out is None:
        return options, (
            "The rows that validation_split has drawn are not saved with the run, so nothing is "
            "evaluated. Give all rows again, tos.resume(uri, data), or validation_data=...",
        )
    return replace(options, validation_data=held_out), ()


def left_out(
    options: ObserverOptions, origin: Origin, past: Iterable[Event], kept_best: bool
) -> tuple[str, ...]:
    """Say what the run had before, and continues without.

    Parameters
    ----------
    options : ObserverOptions
        What it continues with.
    origin : Origin
    past : iterable of Event
        What it told before.
    kept_best : bool
        Whether it kept the best parameters.
    """
    drawn = origin.options.validation_split is not None
    validated = not drawn and any(isinstance(event, Validated) for event in past)
    had = {"validation_data": validated, "keep_best": kept_best}
    names = [name for name, there in had.items() if there and getattr(options, name) is None]
    if not names:
        return ()
    again = ", ".join(f"{name}=..." for name in names)
    return (
        f"The run had {' and '.join(names)} before, which no checkpoint holds, and continues "
        f"without. Give them again: tos.resume(uri, {again}).",
    )
