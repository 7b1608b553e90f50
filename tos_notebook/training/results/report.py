"""What a run's report and its model card say of a run, and the report itself."""

from __future__ import annotations

import math
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...chaos.rules import in_words
from ...readable import counted, few_digits
from ...steering.status import RunStatus
from ...steering.sync import interval_text
from .settings import RunSettings
from .view import RunView

if TYPE_CHECKING:
    from ...telemetry.history import History

OWN_RATE = "the program's own"
"""What a learning rate is called that was not set while training."""

OWN_STEP = "the strategy's step size"
"""What it is called where no optimizer makes the step."""


def own_rate(settings: RunSettings) -> str:
    """Return what a learning rate is called that was not set, as under these settings."""
    return OWN_STEP if "step_size" in settings.own else OWN_RATE


def known_rate(run: RunView) -> float | None:
    """Return the learning rate that is in force, set or the program's own, where it is a number."""
    given = run.settings.learning_rate
    return run.own_rate if given is None and own_rate(run.settings) == OWN_RATE else given


def _rate_text(run: RunView) -> str:
    rate, own = known_rate(run), own_rate(run.settings)
    if rate is None:
        return own
    return f"{few_digits(rate)} ({own})" if run.settings.learning_rate is None else few_digits(rate)


def run_facts(run: RunView, optimizer_state: str) -> dict[str, str]:
    """Return how far a run is, and under which settings it trains, by name for people.

    Parameters
    ----------
    run : RunView
    optimizer_state : {"keep", "reset"}
    """
    status = run.status
    return {
        **({} if run.name is None else {"Run": run.run_id}),
        "State": status.state,
        "Epochs": f"{status.epoch} of {status.epochs}",
        **_results(status),
        **setting_facts(run, optimizer_state),
        "Program": run.program.summary,
        "Master": run.master,
    }


def _results(status: RunStatus) -> dict[str, str]:
    """Return what was learned, and how long that took, by name for people."""
    values = {"Loss": status.loss}
    values |= {f"Validation {name}": value for name, value in status.validation.items()}
    return {
        **{name: f"{value:.4g}" for name, value in values.items() if math.isfinite(value)},
        "Trained": f"{counted(status.samples, 'sample')} in {status.elapsed:,.1f} s",
        "Written": datetime.now().astimezone().isoformat(" ", "minutes"),
    }


def setting_facts(run: RunView, optimizer_state: str) -> dict[str, str]:
    """Return the settings of a run, by name for people; parameters as of `run_facts`."""
    settings = run.settings
    interval = settings.sync_interval
    every = {}
    if interval is not None:
        batches = counted(interval, "batch", "batches")
        every = {"Exchange every": interval_text(interval, batches)}
    return {
        "Strategy": settings.strategy_text,
        **({} if settings.combiner is None else {"Combiner": str(settings.combiner)}),
        **every,
        **({} if settings.lockstep else {"Sync mode": settings.sync}),
        "Codec": settings.codec,
        "Learning rate": _rate_text(run),
        "Batch size": str(settings.batch_size),
        "Optimizer state": optimizer_state,
        "Chaos": in_words(run.chaos_log) if run.chaos_log else "none",
    }


def write(
    run: RunView, history: History, optimizer_state: str, path: str | os.PathLike[str]
) -> Path:
    """Write the report of a run; see `tos_notebook.Run.report`."""
    from ...telemetry.report import write_report

    facts = run_facts(run, optimizer_state)
    if history.swaps:
        swaps = (f"{swap.strategy} from epoch {swap.epoch + 1} on" for swap in history.swaps)
        facts["Swaps of the strategy"] = ", ".join(swaps)
    return write_report(path, history, f"Run {run.name or run.run_id}", facts)
