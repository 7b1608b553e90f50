"""The parameters of estimator and model, under the names that Spark ML has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasBatchSize,
    HasFeaturesCol,
    HasHandleInvalid,
    HasInputCols,
    HasLabelCol,
    HasLearningRate,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasSeed,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from ..codecs.pair import as_codecs
from ..combiners import as_combiner
from ..common.checks import at_least_one, below, not_negative, one_of, positive
from ..steering.conditions import parse
from ..steering.sync import as_sync
from ..strategies.registry import as_strategy
from ..training.options import DEFAULTS, HELP
from .source import as_model_source

Check = Callable[[str, Any], object]

_OFFERED: Mapping[str, tuple[Callable[[Any], Any], Check]] = {
    "epochs": (TypeConverters.toInt, at_least_one),
    "batch_size": (TypeConverters.toInt, at_least_one),
    "learning_rate": (TypeConverters.toFloat, positive),
    "stop_when": (TypeConverters.toString, lambda _, value: parse(str(value))),
    "strategy": (TypeConverters.toString, lambda _, value: as_strategy(value)),
    "sync_interval": (TypeConverters.toInt, at_least_one),
    "sync": (TypeConverters.toString, lambda _, value: as_sync(value)),
    "combiner": (TypeConverters.toString, lambda _, value: as_combiner(value)),
    "codec": (TypeConverters.toString, lambda _, value: as_codecs(value)),
    "partitions": (TypeConverters.toInt, at_least_one),
    "seed": (TypeConverters.toInt, not_negative),
}
"""Options of sessions and runs that an estimator has, with their types and checks."""


_DOCS = {
    **HELP,
    "stop_when": "a condition that ends a fit early, such as val_loss < 0.1",
    "partitions": "partitions to spread the rows over, each with a worker; by default the data's",
}


def _named(option: str) -> str:
    first, *others = option.split("_")
    return "numTrainWorkers" if option == "partitions" else first + "".join(map(str.title, others))


OPTIONS = {_named(option): option for option in _OFFERED}
"""The options by the names that Spark ML has for them."""

CHECKS: Mapping[str, Check] = {
    **{name: _OFFERED[option][1] for name, option in OPTIONS.items()},
    "validationFraction": lambda name, value: below(name, value, 1),
    "modelType": lambda name, value: one_of(name, value, ("auto", "classification", "regression")),
    "handleInvalid": lambda name, value: one_of(name, value, ("error", "skip")),
}
"""What each value must be; those of other parameters are checked by their types alone."""


def _setter(name: str) -> Callable[[Any, Any], Any]:
    def set_value(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    set_value.__doc__ = f"Set `{name}`, and return this object."
    return set_value


def _getter(name: str) -> Callable[[Any], Any]:
    def get_value(self: Any) -> Any:
        return self.getOrDefault(name)

    get_value.__doc__ = f"Return `{name}`, or its default."
    return get_value


def _param(name: str, doc: str, converter: Callable[[Any], Any]) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=converter)


class Checked(Params):
    """Refuses a value out of range when it is set, by whatever method."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Add the methods that set and return each parameter, where Spark has not."""
        super().__init_subclass__(**options)
        for name in dir(cls):
            if isinstance(getattr(cls, name, None), Param):
                end = name[0].upper() + name[1:]
                for method, make in ((f"set{end}", _setter), (f"get{end}", _getter)):
                    if not hasattr(cls, method):
                        setattr(cls, method, make(name))

    def _set(self, **values: Any) -> Any:
        for name, value in values.items():
            if name in CHECKS and value is not None:
                CHECKS[name](name, value)
        return super()._set(**values)

    def set(self, param: Any, value: Any) -> None:
        """Set a parameter; see `pyspark.ml.param.Params.set`."""
        self._shouldOwn(param)
        self._set(**{param.name: value})

    def given(self, name: str) -> Any:
        """Return a parameter's value or default; None if it has neither, or is empty."""
        value = self.getOrDefault(name) if self.isDefined(name) else None
        return None if value in ("", []) else value


class PredictingParams(
    Checked,
    HasFeaturesCol,
    HasInputCols,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasHandleInvalid,
):
    """The parameters of `TensorModel`, which `TensorEstimator` has, too."""

    modelType: Any = _param(
        "modelType",
        "what the model's output means: classification, regression, or auto, by its loss",
        TypeConverters.toString,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(handleInvalid="error", modelType="auto")

    @property
    def features(self) -> list[str]:
        """The columns that are fed, one for each input of the model."""
        columns: list[str] = self.given("inputCols") or [self.getFeaturesCol()]
        return columns

    @property
    def kind(self) -> str | None:
        """What the model's output means, where the user has said it."""
        kind: str = self.getOrDefault("modelType")
        return None if kind == "auto" else kind


class TrainingParams(
    PredictingParams,
    HasLabelCol,
    HasWeightCol,
    HasValidationIndicatorCol,
    HasBatchSize,
    HasLearningRate,
    HasSeed,
):
    """The parameters of `TensorEstimator`."""

    model: Any = _param(
        "model", "a compiled Keras model, or a function that returns one", as_model_source
    )
    validationFraction: Any = _param(
        "validationFraction",
        "share of the rows to validate with after each epoch (0 <= x < 1)",
        TypeConverters.toFloat,
    )

    def __init__(self) -> None:
        super().__init__()
        defaults = {name: DEFAULTS[option] for name, option in OPTIONS.items()}
        given = {name: value for name, value in defaults.items() if value is not None}
        self._setDefault(validationFraction=0.0, **given)


# Spark has batchSize, learningRate and seed.
for _name in OPTIONS.keys() - set(dir(TrainingParams)):
    _convert, _check = _OFFERED[OPTIONS[_name]]
    _range = " (>= 1)" if _check is at_least_one else ""
    setattr(TrainingParams, _name, _param(_name, _DOCS[OPTIONS[_name]] + _range, _convert))
