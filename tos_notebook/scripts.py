"""Progress, signals and an exit code for scripts that train without a notebook."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .common.interrupts import Interrupts
from .errors import TosError
from .telemetry.progress import ProgressLine, progress_line
from .training import factory
from .training.run import Run

DONE, FAILED = 0, 1
"""Exit codes."""

SIGNALED = 128
"""What is added to a signal's number: the exit code by which shells and schedulers know it."""


def run_script(main: Callable[[], object], *, progress: bool = True) -> int:
    """Call the main function of a script, and return the script's exit code.

    A signal that ends scripts (SIGINT of Ctrl-C, SIGTERM of a scheduler, SIGHUP of a terminal that
    was closed) stops the runs that train. They keep their weights and write a last checkpoint.
    `main` continues, so that it can save the model, but can start no further run. A second signal,
    or one while nothing trains, raises `KeyboardInterrupt` in `main`.

    An error of this package is written to standard error without a traceback. All others are
    raised.

    Parameters
    ----------
    main : callable
        Takes nothing. Its return value is ignored; `sys.exit` inside it sets another exit code.
    progress : bool
        Whether each run shows how far it is, also one that a pipeline starts: by one line that
        changes on a terminal, else by lines with the time.

    Returns
    -------
    int
        0 if `main` has returned, 1 after an error of this package, 128 and the signal's number
        after a signal: 130 after Ctrl-C, 143 after SIGTERM.

    Examples
    --------
    >>> sys.exit(tos.run_script(main))                                        # doctest: +SKIP
    """
    with Interrupts(_trains, _stop) as interrupts, _shown(progress):
        try:
            main()
        except KeyboardInterrupt:
            _say("The script has ended before it was done.")
            return SIGNALED + (interrupts.received or signal.SIGINT)
        except TosError as error:
            _say(f"{type(error).__name__}: {error}")
            return FAILED
    return DONE if interrupts.received is None else SIGNALED + interrupts.received


def _trains() -> bool:
    return any(run.active for run in factory.runs())


def _stop(number: signal.Signals) -> None:
    """Stop what trains; on a thread, while the main one waits for it."""
    _say(f"{number.name}: the run stops, and keeps its weights. A second signal ends the script.")
    for run in factory.runs():
        try:
            if run.active:
                run.stop(reason=number.name)
        except TosError as error:
            _say(f"{type(error).__name__}: {error}")


def _say(text: str) -> None:
    # On a terminal there may be a line of progress that has not ended.
    sys.stderr.write(f"\n{text}\n" if sys.stderr.isatty() else f"{text}\n")
    sys.stderr.flush()


@contextmanager
def _shown(progress: bool) -> Iterator[None]:
    if progress:
        factory.watchers.append(_show)
    try:
        yield
    finally:
        if progress:
            factory.watchers.remove(_show)


def _show(run: Run) -> None:
    if not any(isinstance(sink, ProgressLine) for sink in run.sinks):
        run.add_sink(progress_line())
