"""An embedding layer whose table no process has whole."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...common.arrays import Array
from ...common.checks import at_least_one
from ...common.served import First, ServedTable
from ...errors import CaptureError, ConfigError, DataError
from ...inference.servable import HeldRows

OF_TRUNCATED = 0.87962566103423978
"""The standard deviation of a standard normal distribution without what is beyond 2."""


@keras.saving.register_keras_serializable("tos_notebook")
class ServedEmbedding(keras.layers.Layer):
    """An embedding whose rows are in shards of the parameters, as many as were ever needed.

    It stands where `keras.layers.Embedding` does, for tables that fit in no worker's memory. It
    trains with ``strategy="ps:shards=N"``. Before each milestone a worker asks the shards for the
    rows that the milestone's batches need, and sends afterwards how they have changed. A row begins
    at its first use, by its id and the seed. What the model's optimizer keeps of a row, such as
    Adam's moments, is kept with the row. It changes in milestones that need the row, and no other.

    Outside of a run the layer only predicts: by rows as they begin, and after a run by those that
    it has trained.

    Parameters
    ----------
    input_dim : int
        Rows of the table: ids are from 0 to `input_dim` - 1.
    output_dim : int
        Values of a row, float32.
    embeddings_initializer : str or keras.initializers.Initializer
        How rows begin: uniform, normal, truncated normal, constant or one that scales by the shape
        of the table, such as ``"he_normal"``.
    seed : int
        What rows begin as depends on it, and not on the initializer's own seed.
    cache_rows : int
        Different rows that one milestone needs, at most: rows of a batch, times ids in a row, times
        `sync_interval`. A worker has memory for as many, and for their optimizer's state.
    **kwargs
        Such as ``name``; see `keras.layers.Layer`.

    Raises
    ------
    ConfigError
        A number is below 1, or the initializer is another one.

    Examples
    --------
    >>> users = tos.layers.ServedEmbedding(10_000_000, 50, name="users")      # doctest: +SKIP
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        seed: int = 0,
        cache_rows: int = 1 << 16,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.input_dim = at_least_one("input_dim", input_dim)
        self.output_dim = at_least_one("output_dim", output_dim)
        self.cache_rows = min(at_least_one("cache_rows", cache_rows), self.input_dim)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.seed = int(seed)
        self._first = _first(self.embeddings_initializer, self.input_dim, self.output_dim)
        self.held: HeldRows | None = None
        """What has the rows; None for rows as they begin."""
        self._number = 0

    @property
    def table(self) -> ServedTable:
        """The table, without what an optimizer keeps of it."""
        shape = self.input_dim, self.output_dim, self.cache_rows
        return ServedTable(self.name, *shape, self._first, self.seed)

    def build(self, input_shape: Any = None) -> None:
        """Make room for the rows of one milestone."""
        self.rows = self.add_weight(
            shape=(self.cache_rows, self.output_dim), initializer="zeros", name="rows"
        )
        # Shards have them: no program exchanges this weight, or takes it for one that is frozen.
        self.rows.served = True
        self.built = True

    def find_in(self, held: HeldRows, number: int) -> None:
        """Take rows from a run from now on.

        Parameters
        ----------
        held : HeldRows
        number : int
            Of the table there.
        """
        self.held, self._number = held, number

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the rows of ids, of any shape."""
        if training is True:
            raise CaptureError(
                f"ServedEmbedding {self.name!r} trains on Spark only, where shards have its rows: "
                'tos.fit(model, data, strategy="ps:shards=2").'
            )
        ids = tf.cast(inputs, tf.int64)
        if tf.executing_eagerly():
            return tf.cast(self._rows_of(ids.numpy()), self.compute_dtype)
        rows = tf.numpy_function(self._rows_of, [ids], tf.float32)
        return tf.cast(tf.ensure_shape(rows, [*ids.shape, self.output_dim]), self.compute_dtype)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        """Return shape and dtype of the rows of ids."""
        return keras.KerasTensor((*inputs.shape, self.output_dim), dtype=self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Return the shape of the rows of ids."""
        return (*input_shape, self.output_dim)

    def _rows_of(self, ids: Array) -> Array:
        different, places = np.unique(ids, return_inverse=True)
        if different.size and (different[0] < 0 or different[-1] >= self.input_dim):
            wrong = different[0] if different[0] < 0 else different[-1]
            raise DataError(
                f"ServedEmbedding {self.name!r}: expected ids from 0 to {self.input_dim - 1}, got "
                f"{wrong}."
            )
        if self.held is None:
            rows = self.table.begin(different)
        else:
            rows = self.held.find_rows(self._number, different)[:, : self.output_dim]
        return rows[places.reshape(ids.shape)]

    def save_own_variables(self, store: Any) -> None:
        """Save nothing: the rows are elsewhere."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing."""

    def get_config(self) -> dict[str, Any]:
        """Return what makes the same layer; see `keras.layers.Layer.get_config`."""
        config = super().get_config()
        config.pop("autocast", None)
        return config | {
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "seed": self.seed,
            "cache_rows": self.cache_rows,
        }


def _first(initializer: Any, rows: int, width: int) -> First:
    """Return what an initializer gives the rows of a table.

    Raises
    ------
    ConfigError
        It is one that makes all rows together.
    """
    known = keras.initializers
    match initializer:
        case known.RandomUniform():
            return First("uniform", float(initializer.minval), float(initializer.maxval))
        case known.RandomNormal():
            return First("normal", float(initializer.mean), float(initializer.stddev))
        case known.TruncatedNormal():
            return First("truncated normal", float(initializer.mean), float(initializer.stddev))
        case known.Zeros():
            return First("constant", 0.0)
        case known.Ones():
            return First("constant", 1.0)
        case known.Constant() if np.ndim(initializer.value) == 0:
            return First("constant", float(initializer.value))
        case known.VarianceScaling():
            return _scaled(initializer, rows, width)
    raise ConfigError(
        "embeddings_initializer: expected one that gives each row by itself, such as 'uniform', "
        f"'normal', 'zeros' or 'he_normal'; got {type(initializer).__name__}."
    )


def _scaled(initializer: Any, rows: int, width: int) -> First:
    """Return what Keras' VarianceScaling is for a matrix, as of Glorot and Bengio, or of He."""
    fans = {"fan_in": rows, "fan_out": width, "fan_avg": (rows + width) / 2}
    variance = float(initializer.scale / max(1.0, fans[initializer.mode]))
    if initializer.distribution == "uniform":
        return First("uniform", -((3 * variance) ** 0.5), (3 * variance) ** 0.5)
    if initializer.distribution == "truncated_normal":
        return First("truncated normal", 0.0, variance**0.5 / OF_TRUNCATED)
    return First("normal", 0.0, variance**0.5)
