"""`TensorEstimator`: training of a Keras model on all executors, as a stage of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.sql import functions, types

from ..common.checks import refuse_unknown
from ..data.dataframe import FrameColumns, is_persisted
from ..data.dataframe.kinds import quoted
from ..errors import ConfigError, DataError
from ..training.options import (
    ObserverOptions,
    RunOptions,
    SessionOptions,
    documents,
    offers,
    subset,
)
from ..training.session import TrainingSession
from .columns import fed
from .model import TensorModel
from .params import OFFERED, TrainingParams
from .persistence import Stored

if TYPE_CHECKING:
    from ..program.export.base import Program
    from ..program.keras.outputs import Head

PARTS = 1_000_000
"""Into so many `validationFraction` can tell rows apart."""


@documents(OFFERED.values())
class TensorEstimator(Estimator, TrainingParams, Stored):
    """Trains a Keras model on a DataFrame, by workers that exchange as `strategy` says.

    Each fit begins with the same weights, and leaves the model that was given as it is.

    Parameters
    ----------
    model : keras.Model or callable
        A built and compiled model with one output; or a function without parameters that returns
        one, for models that Keras cannot make again of their configuration.
    featuresCol : str
        A vector, an array, a number, raw bytes or images; flat ones get the shape of the model's
        input. Encoded images are decoded and scaled to it.
    inputCols : list of str
        Instead of it for a model with several inputs: a column for each. Several columns of
        numbers for an only input are one array.
    labelCol : str
        A number: for a classifier the class, whole, from 0. A vector or an array for a loss that
        takes one, such as ``categorical_crossentropy`` of one-hot values.
    weightCol : str, optional
        How much a row counts in the loss.
    predictionCol, probabilityCol, rawPredictionCol, handleInvalid, modelType : str
        Those of `TensorModel`.
    validationIndicatorCol : str, optional
        A boolean column: rows with true are not trained on, but validated with after each epoch.
    validationFraction : float
        Instead of it: the share of rows to do this with. Equal rows are all on the same side.

    Raises
    ------
    ConfigError, CombinerError, CodecError
        A parameter out of range.
    CaptureError
        The model has no weights, or is not compiled.

    Examples
    --------
    >>> estimator = TensorEstimator(model=model, epochs=5, batchSize=32)      # doctest: +SKIP
    >>> scored = Pipeline(stages=[assembler, estimator]).fit(df).transform(test)  # doctest: +SKIP
    """

    @keyword_only
    @offers(OFFERED.values())
    def __init__(
        self,
        *,
        model: Any = None,
        featuresCol: str = "features",
        inputCols: Sequence[str] | None = None,
        labelCol: str = "label",
        weightCol: str | None = None,
        predictionCol: str = "prediction",
        probabilityCol: str = "probability",
        rawPredictionCol: str = "rawPrediction",
        handleInvalid: str = "error",
        modelType: str = "auto",
        validationIndicatorCol: str | None = None,
        validationFraction: float = 0.0,
        **options: Any,
    ) -> None:
        known = [*signature(TensorEstimator.__init__).parameters]
        refuse_unknown("TensorEstimator", options, known[1:])
        super().__init__()
        self.setParams(**self._input_kwargs)

    def setParams(self, **values: Any) -> TensorEstimator:
        """Set parameters by their names.

        Parameters
        ----------
        **values
            Those of the constructor; None leaves one as it is.

        Returns
        -------
        TensorEstimator
            This one.

        Raises
        ------
        ConfigError
            A parameter is unknown, or a value out of range.
        """
        for name in values:
            if not self.hasParam(name):
                known = ", ".join(param.name for param in self.params)
                raise ConfigError(f"{name}: expected one of the parameters {known}.")
        self._set(**{name: value for name, value in values.items() if value is not None})
        return self

    def present(self) -> Any:
        """See `Stored.present`: the model that each fit begins with."""
        return self._source().fresh()

    def _source(self) -> Any:
        source = self.given("model")
        if source is None:
            raise ConfigError(
                "model: expected a compiled Keras model, or a function that returns one; it is "
                "not set. TensorEstimator(model=...), or setModel(...)."
            )
        return source

    def _fit(self, dataset: Any) -> TensorModel:
        from ..program.keras.outputs import head_of
        from ..program.keras.program import KerasProgram

        model = self._source().fresh()
        head = head_of(model, self.kind)
        program = KerasProgram(model, weights=self.given("weightCol") is not None)
        # Says what is wrong with the columns before they are split.
        self._columns(dataset, program)
        self._refuse_numbers(dataset, head)
        if head.classes is not None and head.zero_one:
            # The loss alone would take others than 0 and 1, too.
            program.expect_classes(head.classes)
        if self.given("learningRate") is not None and not program.has_learning_rate:
            raise ConfigError(
                "learningRate: expected a model compiled with a number as learning rate, got one "
                "with a schedule. Compile it with a number, or leave learningRate unset."
            )
        fitted = TensorModel(model=model)
        fitted._resetUid(self.uid)
        fitted._run = self._trained(dataset, program)
        return self._copyValues(fitted)

    def _trained(self, dataset: Any, program: Program) -> Any:
        if not self._validates or is_persisted(dataset):
            return self._run(dataset, program)
        # Both sides of the split are of the same rows, each computed once.
        others = [self.given(name) for name in ("weightCol", "validationIndicatorCol")]
        names = dict.fromkeys((*self.features, self.getLabelCol(), *filter(None, others)))
        rows = dataset.select(*map(quoted, names)).persist()
        try:
            return self._run(rows, program)
        finally:
            rows.unpersist()

    @property
    def _validates(self) -> bool:
        share: float = self.getOrDefault("validationFraction")
        return self.given("validationIndicatorCol") is not None or share > 0

    def _run(self, dataset: Any, program: Program) -> Any:
        train, validation = self._split(dataset)
        rows = self._columns(train, program)
        rest = None if validation is None else self._columns(validation, program)
        given = {option: self.given(each.name) for option, each in OFFERED.items()}
        settings = subset(SessionOptions, given)
        options = subset(RunOptions, given) | subset(ObserverOptions, given)
        with TrainingSession(dataset.sparkSession, program, **settings) as session:
            return session.run(rows, validation_data=rest, **options)

    def _columns(self, frame: Any, program: Program) -> FrameColumns:
        label, weight = self.getLabelCol(), self.given("weightCol")
        return fed(self, frame, program.inputs, [label], weight)

    def _split(self, dataset: Any) -> tuple[Any, Any]:
        """Return the rows to train on, and those to validate with, if any."""
        name, share = self.given("validationIndicatorCol"), self.getOrDefault("validationFraction")
        if not self._validates:
            return dataset, None
        if name is None:
            columns = [dataset[quoted(c)] for c in (*self.features, self.getLabelCol())]
            hashed = functions.xxhash64(functions.lit(self.getSeed()), *columns)
            held = functions.pmod(hashed, functions.lit(PARTS)) < int(share * PARTS)
        elif share:
            raise ConfigError(
                "validationFraction: expected either it or validationIndicatorCol, got both, "
                f"{share} and {name!r}."
            )
        else:
            held = _indicator(dataset, name)
        return dataset.where(~held), dataset.where(held)

    def _refuse_numbers(self, dataset: Any, head: Head) -> None:
        name = self.getLabelCol()
        kind = dataset.schema[name].dataType
        if head.one_hot and isinstance(kind, types.NumericType):
            raise DataError(
                f"labelCol={name!r}: the model's loss expects one-hot labels, vectors of "
                f"{head.shape[-1]} values, got {kind.simpleString()}. Compile the model with "
                'loss="sparse_categorical_crossentropy", which takes the class itself.'
            )


def _indicator(dataset: Any, name: str) -> Any:
    found = name in dataset.columns
    if not found or not isinstance(dataset.schema[name].dataType, types.BooleanType):
        got = dataset.schema[name].dataType.simpleString() if found else "no such column"
        raise DataError(
            f"validationIndicatorCol={name!r}: expected a boolean column, got {got}. The "
            f"DataFrame has {', '.join(dataset.columns)}."
        )
    # A null counts as false.
    return functions.coalesce(dataset[quoted(name)], functions.lit(False))
