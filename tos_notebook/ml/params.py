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
from ..training.options import DEFAULTS, HELP
from .source import as_model_source

OPTIONS: Mapping[str, str] = {
    "epochs": "epochs",
    "batchSize": "batch_size",
    "learningRate": "learning_rate",
    "stopWhen": "stop_when",
    "syncInterval": "sync_interval",
    "sync": "sync",
    "combiner": "combiner",
    "codec": "codec",
    "numTrainWorkers": "partitions",
    "seed": "seed",
}
"""The options of sessions and runs, by the names that Spark ML has for them."""

MODEL_TYPES = ("auto", "classification", "regression")

HANDLE_INVALID = ("error", "skip")


CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    "batchSize": at_least_one,
    "epochs": at_least_one,
    "syncInterval": at_least_one,
    "numTrainWorkers": at_least_one,
    "seed": not_negative,
    "learningRate": positive,
    "validationFraction": lambda name, value: below(name, value, 1),
    "modelType": lambda name, value: one_of(name, value, MODEL_TYPES),
    "handleInvalid": lambda name, value: one_of(name, value, HANDLE_INVALID),
    "stopWhen": lambda _, value: parse(str(value)),
    "sync": lambda _, value: as_sync(value),
    "combiner": lambda _, value: as_combiner(value),
    "codec": lambda _, value: as_codecs(value),
}
"""What each value must be; those of other parameters are checked by their types alone."""


def setter(name: str) -> Callable[[Any, Any], Any]:
    """Return the method that sets a parameter, and returns its object."""

    def set_value(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    set_value.__doc__ = f"Set `{name}`, and return this object."
    return set_value


def getter(name: str) -> Callable[[Any], Any]:
    """Return the method that returns a parameter's value, or its default."""

    def get_value(self: Any) -> Any:
        return self.getOrDefault(name)

    get_value.__doc__ = f"Return `{name}`, or its default."
    return get_value


def _param(name: str, doc: str, converter: Callable[[Any], Any]) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=converter)


class Checked(Params):
    """Refuses a value out of range when it is set, by whatever method."""

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

    setFeaturesCol = setter("featuresCol")
    setInputCols = setter("inputCols")
    setPredictionCol = setter("predictionCol")
    setProbabilityCol = setter("probabilityCol")
    setRawPredictionCol = setter("rawPredictionCol")
    setHandleInvalid = setter("handleInvalid")
    setModelType, getModelType = setter("modelType"), getter("modelType")


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
    epochs: Any = _param("epochs", f"{HELP['epochs']} (>= 1)", TypeConverters.toInt)
    stopWhen: Any = _param(
        "stopWhen",
        "a condition that ends a fit early, such as val_loss < 0.1",
        TypeConverters.toString,
    )
    syncInterval: Any = _param(
        "syncInterval", f"{HELP['sync_interval']} (>= 1)", TypeConverters.toInt
    )
    sync: Any = _param("sync", HELP["sync"], TypeConverters.toString)
    combiner: Any = _param("combiner", HELP["combiner"], TypeConverters.toString)
    codec: Any = _param("codec", HELP["codec"], TypeConverters.toString)
    numTrainWorkers: Any = _param(
        "numTrainWorkers",
        "partitions to spread the rows over, each with a worker (>= 1); those of the data if unset",
        TypeConverters.toInt,
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

    setModel, getModel = setter("model"), getter("model")
    setLabelCol = setter("labelCol")
    setWeightCol = setter("weightCol")
    setValidationIndicatorCol = setter("validationIndicatorCol")
    setLearningRate = setter("learningRate")
    setBatchSize = setter("batchSize")
    setSeed = setter("seed")
    setEpochs, getEpochs = setter("epochs"), getter("epochs")
    setStopWhen, getStopWhen = setter("stopWhen"), getter("stopWhen")
    setSyncInterval, getSyncInterval = setter("syncInterval"), getter("syncInterval")
    setSync, getSync = setter("sync"), getter("sync")
    setCombiner, getCombiner = setter("combiner"), getter("combiner")
    setCodec, getCodec = setter("codec"), getter("codec")
    setNumTrainWorkers, getNumTrainWorkers = setter("numTrainWorkers"), getter("numTrainWorkers")
    setValidationFraction = setter("validationFraction")
    getValidationFraction = getter("validationFraction")
