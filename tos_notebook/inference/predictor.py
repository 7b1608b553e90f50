"""What predicts: a captured program, or a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..blocks.naming import Names
from ..common import temporary
from ..common.checks import at_least_one
from ..common.told import told
from .servable import Servable

BATCH_SIZE = 1000


class Predictor(Servable):
    """A model that predicts rows of whatever kind of data."""

    @told("Predicting the rows", "predict")
    def predict(
        self,
        data: Any,
        features: str | Names = (),
        *,
        output: str | Names | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> Any:
        """Return the model's prediction for each row, computed on the executors.

        Parameters
        ----------
        data : DataFrame, columns of one, RDD, other training data, or ndarray
            A DataFrame, with `features` or with columns named as the inputs; what
            `tos_notebook.columns` returns, which also has shapes, padding and the treatment of bad
            rows. Or an RDD of features, of tuples of them, or of records as for training, without
            their labels. Or other training data.
            Arrays or lists, one, a tuple with one for each input or a dictionary by the inputs'
            names, tables of pandas and a `tf.data.Dataset` are predicted here.
        features : str, sequence of str, or mapping of str to str
            Columns of a DataFrame, one for each input: in its order, or in any order if they are
            the inputs' names; or by the inputs' names.
        output : str, sequence of str, or mapping of str to str, optional
            Names of the columns to add to a DataFrame, one for each output: by default
            ``prediction``, or ``prediction_`` with each output's name.
        batch_size : int
            Rows that are predicted at once; of wide sparse vectors fewer, as memory allows.

        Returns
        -------
        DataFrame, RDD, or ndarray (a tuple of them for several outputs)
            For a DataFrame: the same, rows and columns in their order, with a column for each
            output. It has numbers, or arrays, nested for more dimensions. An output of one number
            per row is a number. With ``on_bad="skip"`` a bad row is predicted null. Lazy, like all
            of
            Spark's transformations; the parameters are those of now. Otherwise an RDD with an
            array, or a tuple of arrays, for each record, in their order; or arrays.

        Raises
        ------
        DataError
            A column is missing or cannot be fed; the data have no rows.
        ShapeMismatch
            Number, dtypes or shapes of the data's columns do not fit the inputs.
        ConfigError
            A name for a column is taken, or `batch_size` is below 1.

        Examples
        --------
        >>> scored = program.predict(df, "pixels")                            # doctest: +SKIP
        >>> scored.select("id", "prediction")                                 # doctest: +SKIP
        """
        at_least_one("batch_size", batch_size)
        from .dispatch import predict

        with temporary.directory("tos-predict-") as folder:
            return predict(self, data, features, output, batch_size, Path(folder, "model.zip"))
