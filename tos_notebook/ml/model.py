"""`TensorModel`: a Keras model as a transformer of DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import keyword_only
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions, types

from ..blocks.block import ColumnSpec
from ..data.dataframe.kinds import quoted
from ..errors import CaptureError, ConfigError
from ..program.kinds import is_keras
from ..program.saved_models import KerasModel
from ..training.results.card import epoch_losses
from .columns import fed
from .params import PredictingParams
from .persistence import Stored

if TYPE_CHECKING:
    import pandas as pd

    from ..program.keras.outputs import Head
    from ..training.run import Run


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What a fit did.

    Parameters
    ----------
    run : Run
        With its `history`, `workers`, `figure()` and `report(path)`.
    """

    run: Run

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone; see `tos_notebook.Run.history`."""
        return self.run.history

    @property
    def validation(self) -> pd.DataFrame:
        """Loss and metrics of the validation rows after each epoch."""
        return self.run.validation

    @property
    def objectiveHistory(self) -> list[float]:
        """Mean loss over the samples of each epoch."""
        return epoch_losses(self.run.history).tolist()

    @property
    def totalIterations(self) -> int:
        """Epochs that were trained."""
        return len(self.objectiveHistory)


class Scorer(KerasModel):
    """A Keras model whose outputs are the columns of a Spark ML model.

    Parameters
    ----------
    model : keras.Model
    finish : callable
        As `tos_notebook.program.keras.outputs.scores` returns it.
    """

    def __init__(self, model: Any, finish: Callable[[Any], Any]) -> None:
        super().__init__(model)
        self._finish = finish

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `tos_notebook.inference.predictor.Predictor.serve`."""
        from ..program.keras.serving import serve_keras

        serve_keras(self.model, self._struct, columns, target, finish=self._finish)


class TensorModel(Model, PredictingParams, Stored):
    """Adds a Keras model's predictions to a DataFrame, computed on the executors.

    A classifier adds ``rawPrediction`` (a vector of logits; of probabilities where the model
    returns these), ``probability`` (a vector) and ``prediction`` (a double, the class with the
    highest one). So Spark ML's evaluators work on it. Any other model adds ``prediction``: a
    double, a vector where it returns several numbers, nested arrays where these have more
    dimensions. A column whose name is empty is left out.

    Parameters
    ----------
    model : keras.Model
        Built; one with one output. `TensorEstimator.fit` makes it, or pass another model.
    featuresCol : str
        A vector, an array, a number or raw bytes; flat ones get the shape of the model's input.
    inputCols : list of str
        Instead of it for a model with several inputs: a column for each.
    predictionCol, probabilityCol, rawPredictionCol : str
        Columns to add.
    handleInvalid : {"error", "skip"}
        What becomes of a row with a null, NaN, infinity or an array of another length: an error
        that names it, or it is left out.
    modelType : {"auto", "classification", "regression"}
        What the model's output means; by default classes if it was compiled with a cross entropy
        over classes, else numbers.

    Raises
    ------
    ConfigError
        A parameter out of range.
    CaptureError
        No Keras model, or one without weights.

    Examples
    --------
    >>> scored = TensorModel(model=keras_model).transform(df)                 # doctest: +SKIP
    """

    @keyword_only
    def __init__(
        self,
        *,
        model: Any,
        featuresCol: str = "features",
        inputCols: Sequence[str] | None = None,
        predictionCol: str = "prediction",
        probabilityCol: str = "probability",
        rawPredictionCol: str = "rawPrediction",
        handleInvalid: str = "error",
        modelType: str = "auto",
    ) -> None:
        super().__init__()
        self._model = _checked(model)
        self._run: Run | None = None
        given = {**self._input_kwargs, "model": None}
        self._set(**{name: value for name, value in given.items() if value is not None})

    @property
    def model(self) -> Any:
        """The Keras model."""
        return self._model

    def present(self) -> Any:
        """See `Stored.present`."""
        return self._model

    @property
    def run(self) -> Run:
        """The run that trained it.

        Raises
        ------
        ConfigError
            It was loaded, or made from a model in memory.
        """
        if self._run is None:
            raise ConfigError(
                "This model has no summary: it was not trained in this process, but loaded, or "
                "made from a model in memory."
            )
        return self._run

    @property
    def hasSummary(self) -> bool:
        """Whether there is a `summary`."""
        return self._run is not None

    @property
    def summary(self) -> TrainingSummary:
        """How it was trained; raises as `run` does."""
        return TrainingSummary(self.run)

    def _transform(self, dataset: Any) -> Any:
        from ..program.keras.outputs import head_of, scores

        head = head_of(self._model, self.kind)
        wanted = self._wanted(head)
        for param, name in wanted.values():
            if name in getattr(dataset, "columns", ()):
                raise ConfigError(
                    f"{param}: the DataFrame has a column {name!r} already. Drop it, or choose "
                    f"another name: {param}={name + '2'!r}."
                )
        if not wanted:
            return dataset
        names = [name for _, name in wanted.values()]
        scorer = Scorer(self._model, scores(head, dict(zip(wanted, names, strict=True))))
        scored = scorer.predict(fed(self, dataset, scorer.inputs), output=names)
        if self.getHandleInvalid() == "skip":
            scored = scored.where(scored[quoted(names[0])].isNotNull())
        return _with_vectors(scored, names)

    def _wanted(self, head: Head) -> dict[str, tuple[str, str]]:
        """Return parameter and name of each column to add, by what it is."""
        columns = {"prediction": "predictionCol"}
        if head.classes is not None:
            columns = {"raw": "rawPredictionCol", "probability": "probabilityCol", **columns}
        named = {which: (param, self.given(param)) for which, param in columns.items()}
        return {which: found for which, found in named.items() if found[1] is not None}


def _checked(model: Any) -> Any:
    from ..program.keras.structure import is_built

    if not is_keras(model) or not is_built(model):
        raise CaptureError(
            f"model: expected a Keras model with weights, got {model!r}. Load a file with "
            "keras.models.load_model, and give an unbuilt model a keras.Input."
        )
    return model


def _with_vectors(frame: Any, names: Sequence[str]) -> Any:
    """Return a DataFrame whose columns of these names hold vectors instead of flat arrays."""
    flat = types.ArrayType(types.DoubleType()).simpleString()
    made = {
        # A row that was left out while predicting is null, of which no vector can be made.
        name: functions.when(frame[quoted(name)].isNotNull(), array_to_vector(frame[quoted(name)]))
        for name in names
        if frame.schema[name].dataType.simpleString() == flat
    }
    return frame.withColumns(made) if made else frame
