"""What a user has beside a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

from ...common.checks import RAISE_OR_SKIP, boolean, positive
from ...errors import ConfigError
from ...steering.conditions import (
    VALIDATION,
    as_conditions,
    largest_is_best,
    on_validation,
    text_of,
)
from ...steering.trigger import PLACES, Trigger, as_trigger
from ...telemetry.bus import Sink
from ...telemetry.mlflow import MLflow
from .option import in_range, option


def as_best(name: str, value: Any) -> str:
    """Return a value of the validation, and which is best: ``val_loss:min``."""
    metric, _, best = value.partition(":") if isinstance(value, str) else ("", "", "")
    largest = largest_is_best(metric)
    if not best and largest is not None:
        best = "max" if largest else "min"
    if not metric.startswith(VALIDATION) or best not in ("min", "max"):
        raise ConfigError(
            f"{name}: expected a value of the validation, such as 'val_loss' or 'val_accuracy', "
            f"and which is best where the name does not say, such as 'val_f1:max'; got {value!r}."
        )
    return f"{metric}:{best}"


def as_rate(name: str, value: Any) -> Any:
    """Return a learning rate, or a schedule; what a schedule returns is not looked at."""
    if isinstance(value, Real):
        return positive(name, value)
    if not callable(value) or isinstance(value, type):
        raise ConfigError(
            f"{name}: expected a number, a schedule such as "
            "keras.optimizers.schedules.CosineDecay(...), or a function of the global step; got "
            f"{value!r} of type {type(value).__name__}."
        )
    return value


def as_mlflow(name: str, value: Any) -> MLflow | bool:
    """Return what is logged in MLflow; False for nothing. A text is the experiment's name."""
    if isinstance(value, str) and value:
        return MLflow(experiment=value)
    if not isinstance(value, bool | MLflow):
        raise ConfigError(
            f"{name}: expected True, the name of an experiment, or tos.MLflow(...); got {value!r} "
            f"of type {type(value).__name__}."
        )
    return value


def _folder(name: str, value: Any) -> Any:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ConfigError(f"{name}: expected a folder's URI or path, got {value!r}.")
    return value


def _callbacks(name: str, value: Any) -> Any:
    if value is not None and value != () and value != []:
        # Keras stays unloaded where there are none.
        from ...program.keras.callbacks import require_callbacks

        require_callbacks(value if isinstance(value, list | tuple) else [value])
    return value


def _conditions(name: str, value: Any) -> Any:
    as_conditions(value)
    return value


def require_met(conditions: Any, validated: bool) -> tuple[Callable[[Any], Any], ...]:
    """Return conditions; refuse one on validation data where there are none.

    Raises
    ------
    ConfigError
        They are not conditions, or can never be met.
    """
    found = as_conditions(conditions)
    for condition in found:
        if on_validation(condition) and not validated:
            raise ConfigError(
                f"stop_when: expected validation data for {text_of(condition)!r}, which looks at "
                "them. Give validation_data=..., or a condition on the training."
            )
    return found


def _sinks(name: str, value: Any) -> tuple[Sink, ...]:
    given = tuple(value) if isinstance(value, Iterable) else (value,)
    if callable(value) or not all(map(callable, given)):
        raise ConfigError(
            f"{name}: expected a list of functions that take an event, such as {name}=[print]; got "
            f"{value!r:.80}."
        )
    return given


# Not comparable: arrays, which validation may be, do not say whether they are equal.
@dataclass(frozen=True, eq=False, kw_only=True)
class ObserverOptions:
    """What a user has beside a run; see `TrainingSession.start`."""

    validation_data: Any = option(
        None,
        "data that are evaluated after each epoch",
        "Evaluated when an epoch is done, while training continues.",
        takes="as data, but no callable, optional",
    )
    validation_every: str | int | Trigger | None = option(
        None,
        "how often the validation data are evaluated, instead: 30s, 50 (milestones), or 2epochs",
        """
        Another interval, written as for `checkpoint_every`; also at the end. Callbacks also
        have the evaluations at the ends of epochs.
        """,
        takes="str or int, optional",
        check=as_trigger,
    )
    validation_on: str = option(
        "driver",
        "where to evaluate: on the driver, which gets the rows once, or in free slots of executors",
        """
        Where the rows are evaluated. The driver gets those of an RDD or a DataFrame once. Executors
        evaluate them where they are, and need a task slot that training leaves free.
        """,
        check=PLACES,
    )
    keep_best: str | None = option(
        None,
        "keep the parameters of the best validation: val_loss, val_accuracy, or val_f1:max",
        """
        By which value of the validation to keep the best parameters, for `Run.best`: ``"val_loss"``
        or ``"val_accuracy"``. If the name does not imply which value is best, add it:
        ``"val_f1:max"``, ``"val_mae:min"``. They are kept in memory, and in the run's folder
        if it has checkpoints. They are those that were evaluated, while the run trains on.
        """,
        check=as_best,
    )
    callbacks: Any = option(
        (),
        "Keras callbacks, or a list of them; they run on the driver, a milestone being a batch",
        """
        Called on a thread of the driver, where a milestone counts as a batch; the exchange
        never waits for them. See docs/how-to/callbacks.md.
        """,
        takes="sequence of keras.callbacks.Callback",
        check=_callbacks,
    )
    on_callback_error: str = option(
        "skip",
        "if a callback raises an error: end the run, or disable the callback",
        check=RAISE_OR_SKIP,
    )
    learning_rate: float | Callable[[int], Any] | None = option(
        None,
        "a number to begin with, or a schedule of the global step",
        """
        To begin with, or by the global step, an int: the optimizer steps that all workers
        together have made. Instead of the program's own. See docs/how-to/training.md.
        """,
        takes="float, keras.optimizers.schedules.LearningRateSchedule, callable, optional",
        check=as_rate,
        estimator=True,
    )
    stop_when: Any = option(
        None,
        'end the run early: "val_accuracy > 0.98 or minutes >= 10", or tos.conditions',
        """
        Conditions of which any ends the run as `Run.stop` does: those of `tos_notebook.conditions`,
        words such as ``"val_accuracy > 0.98"``, or functions of `Run.status`.
        """,
        takes="callable, str, or sequence of them, optional",
        check=_conditions,
        estimator=True,
    )
    tensorboard: str | None = option(
        None,
        "where event files go, a Hadoop URI or a local path",
        """
        A folder, as a Hadoop URI or a local path, for event files, written while the run
        trains; they need the package ``tensorboard``. See docs/how-to/tensorboard.md.
        """,
        check=_folder,
    )
    histograms: bool | None = option(
        None,
        "whether the distribution of each weight is recorded",
        """
        Whether the distribution of each weight is recorded, for `Run.weights_figure` and the
        event files; by default where event files are written.
        """,
        check=boolean,
    )
    mlflow: bool | str | MLflow | None = option(
        None,
        "log the run in MLflow, in an experiment of this name",
        """
        Whether the run is logged in MLflow, or the name of the experiment, or more to choose;
        in the active MLflow run if there is one. Needs the package ``mlflow``. See
        docs/how-to/mlflow.md.
        """,
        takes="bool, str or tos_notebook.MLflow, optional",
        check=as_mlflow,
    )
    sinks: Sequence[Sink] = option(
        (),
        "further consumers of the run's events",
        """
        Further consumers of the run's events. Each has a separate thread. If one raises an error,
        or is 50,000 events late, it gets no further events; a note in `Run.status` says so. The
        end of the run waits 10 s for those that are still busy.
        """,
        takes="sequence of callable",
        check=_sinks,
    )

    def checked(self, split: float | None = None) -> Self:
        """Return them as a run uses them, `validation_every` as an object.

        Parameters
        ----------
        split : float, optional
            The share of the rows that are the validation data.

        Raises
        ------
        ConfigError
            One is out of range, or needs validation data; or these come from two places.
        """
        place, validates = self.validation_on, split is not None or self.validation_data is not None
        if split is not None and self.validation_data is not None:
            raise ConfigError(
                "validation_split: expected it or validation_data; got both. Leave one out."
            )
        if not validates:
            require_none(self.keep_best, self.validation_every, place)
        if self.stop_when is not None:
            require_met(self.stop_when, validates)
        return replace(self, **in_range(ObserverOptions, self))

    @property
    def validated_every(self) -> Trigger | None:
        """How often the validation data are evaluated; None for after each epoch."""
        every = self.validation_every
        found = None if every is None else as_trigger("validation_every", every)
        return None if found == Trigger(epochs=1) else found


def require_none(keep_best: Any, validation_every: Any, validation_on: Any) -> None:
    """Refuse what needs validation data, where there are none.

    Raises
    ------
    ConfigError
        The message begins with the option.
    """
    wanted = {}
    if validation_on and validation_on != ObserverOptions.validation_on:
        wanted["validation_on"] = f"evaluate on {validation_on!r}"
    if validation_every is not None:
        wanted["validation_every"] = f"evaluate every {validation_every}"
    if keep_best:
        wanted["keep_best"] = f"find the best {as_best('keep_best', keep_best).partition(':')[0]}"
    for name, what in wanted.items():
        raise ConfigError(
            f"{name}: expected validation data to {what}; give validation_data=..., too."
        )
