"""The parameters of estimator and model, under the names that Spark ML has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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

from ..common.checks import at_least_one, below, one_of, positive
from ..steering.conditions import parse
from ..strategies.registry import as_strategy
from ..training.options import OPTIONS, Check, Option
from .source import as_model_source

_CONVERTERS = {
    "int": TypeConverters.toInt,
    "float": TypeConverters.toFloat,
    "str": TypeConverters.toString,
}


STRATEGY = "strategy"
"""The parameter whose value may be an object of this package, and not only a text."""


def _named(option: str) -> str:
    first, *others = option.split("_")
    return "numTrainWorkers" if option == "partitions" else first + "".join(map(str.title, others))


_TOLD = {
    "learning_rate": "by default the one that the model was compiled with",
    "seed": "of the order of rows, and of the choice of those that validate",
    "stop_when": "a condition that ends a fit early, such as val_loss < 0.1",
    "partitions": "partitions to spread the rows over, each with a worker; by default the data's",
}
"""What is said of options that are not quite those of a session or a run."""


def _offered(option: Option) -> Option:
    """Return an option as a parameter in Spark's words: a number, a text, or unset."""
    annotation = option.plain if option.default is not None else f"{option.plain} | None"
    annotation = option.annotation if option.name == STRATEGY else annotation
    return replace(
        option,
        name=_named(option.name),
        annotation=annotation,
        help=_TOLD.get(option.name, option.help),
        doc="" if option.name in _TOLD else option.doc,
        takes="",
    )


OFFERED = {name: _offered(each) for name, each in OPTIONS.items() if each.estimator}
"""Options of sessions and runs that an estimator has, by their names in a session or a run."""


def _check(option: Option) -> Check:
    return lambda _, value: option.checked(value)


CHECKS: Mapping[str, Check] = {
    **{each.name: _check(each) for each in OFFERED.values()},
    "learningRate": positive,
    "stopWhen": lambda _, value: parse(str(value)),
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
        given = {p.name: p.default for p in OFFERED.values() if p.default is not None}
        self._setDefault(validationFraction=0.0, **given)


def _as_value(strategy: Any) -> Any:
    return strategy if isinstance(strategy, str) else as_strategy(strategy)


# Spark has batchSize, learningRate and seed.
for _each in OFFERED.values():
    if not hasattr(TrainingParams, _each.name):
        _range = " (>= 1)" if _each.check is at_least_one else ""
        _converter = _as_value if _each.name == STRATEGY else _CONVERTERS[_each.plain]
        _made = _param(_each.name, _each.help + _range, _converter)
        setattr(TrainingParams, _each.name, _made)
