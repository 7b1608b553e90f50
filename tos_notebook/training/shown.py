"""What a call does about the run that it has started: show how far it is, and wait for its end."""

from __future__ import annotations

from ..common.console import is_noninteractive
from ..telemetry.bus import Sink
from ..telemetry.progress import progress_line
from .run import Run, viewers


def has_view() -> bool:
    """Whether a notebook shows runs here."""
    return bool(viewers) and not is_noninteractive()


def with_line(sinks: tuple[Sink, ...], verbose: bool) -> tuple[Sink, ...]:
    """Return sinks of a run, with one that writes a line of text on how far it is if that is so."""
    return (*sinks, progress_line()) if verbose else sinks


def wait_or_stop(run: Run) -> Run:
    """Wait for a run's end; an interrupt stops it and keeps the weights.

    If it is stopping already, as after the first signal to a script, an interrupt ends the wait.
    """
    try:
        return run.wait()
    except KeyboardInterrupt:
        if run.active and run.state != "stopping":
            run.stop()
        raise
