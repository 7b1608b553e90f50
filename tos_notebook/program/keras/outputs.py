"""What the output of a Keras model means: classes and their probabilities, or numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ...errors import UnsupportedProgram
from .structure import functional

CLASSIFICATION, REGRESSION = "classification", "regression"

SPARSE = (keras.losses.SparseCategoricalCrossentropy, keras.losses.sparse_categorical_crossentropy)
ONE_HOT = (
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
    keras.losses.categorical_crossentropy,
    keras.losses.categorical_focal_crossentropy,
)
BINARY = (
    keras.losses.BinaryCrossentropy,
    keras.losses.BinaryFocalCrossentropy,
    keras.losses.binary_crossentropy,
    keras.losses.binary_focal_crossentropy,
)


@dataclass(frozen=True, slots=True)
class Head:
    """A model's only output.

    Parameters
    ----------
    kind : {"classification", "regression"}
    shape : tuple of (int or None)
        Of one row.
    logits : bool
        Whether probabilities are yet to be made of it.
    one_hot : bool
        Whether the loss takes a label as a row with a value for each class.
    zero_one : bool
        Whether it takes 0 or 1.
    """

    kind: str
    shape: tuple[int | None, ...]
    logits: bool
    one_hot: bool
    zero_one: bool

    @property
    def classes(self) -> int | None:
        """How many classes it tells apart; None for numbers."""
        if self.kind == REGRESSION:
            return None
        return 2 if self.binary else self.shape[0]

    @property
    def binary(self) -> bool:
        """Whether it is one number for each row, the second class's probability or logit."""
        return self.shape in ((), (1,))


def head_of(model: Any, kind: str | None = None) -> Head:
    """Return what a model's output means, by its loss.

    Parameters
    ----------
    model : keras.Model
    kind : {"classification", "regression"}, optional
        By default the former for a cross entropy over classes, the latter for all else.

    Raises
    ------
    UnsupportedProgram
        It has several outputs, or cannot be of that kind.
    """
    shape = _output_shape(model)
    losses = keras.tree.flatten(model.loss)
    loss = keras.losses.get(losses[0]) if len(losses) == 1 else None
    # One number with a binary cross entropy is two classes, several are as many labels.
    zero_one = _is(loss, BINARY) and shape in ((), (1,))
    if kind is None:
        classes = zero_one or (_is(loss, (*SPARSE, *ONE_HOT)) and len(shape) == 1)
        kind = CLASSIFICATION if classes else REGRESSION
    if kind == CLASSIFICATION and len(shape) > 1:
        raise UnsupportedProgram(
            f"modelType: expected an output with a value for each class to classify rows, got "
            f'outputs of shape {shape}. Set modelType="regression" to get them as they are.'
        )
    config = loss.get_config() if isinstance(loss, keras.losses.Loss) else {}
    return Head(kind, shape, bool(config.get("from_logits")), _is(loss, ONE_HOT), zero_one)


def _is(loss: Any, known: Sequence[Any]) -> bool:
    return any(loss is one or (isinstance(one, type) and isinstance(loss, one)) for one in known)


def _output_shape(model: Any) -> tuple[int | None, ...]:
    inner = functional(model)
    outputs = keras.tree.flatten(getattr(inner, "_outputs_struct", None))
    if len(outputs) != 1 or outputs[0] is None:
        names = ", ".join(getattr(model, "output_names", None) or ["unknown ones"])
        raise UnsupportedProgram(
            f"Expected a Sequential or functional model with one output, got {model.name!r} with "
            f"outputs {names}. Train others with a TrainingSession, and predict with run.predict."
        )
    return tuple(outputs[0].shape[1:])


def scores(head: Head, names: Mapping[str, str]) -> Callable[[Any], dict[str, tf.Tensor]]:
    """Return what makes columns of a batch of outputs.

    Parameters
    ----------
    head : Head
    names : mapping of str to str
        Which columns are wanted, and what they are called: of ``raw`` (logits; probabilities where
        there are none), ``probability`` and ``prediction`` (the class, or what a regression
        predicts). A regression has the last only.

    Returns
    -------
    callable
        Takes what a model returns; returns float64 by name.
    """

    def finish(found: Any) -> dict[str, tf.Tensor]:
        (output,) = keras.tree.flatten(found)
        output = tf.cast(output, tf.float64)
        classes = head.kind == CLASSIFICATION
        made = _classified(head, output) if classes else {"prediction": output}
        return {name: made[which] for which, name in names.items()}

    return finish


def _classified(head: Head, output: tf.Tensor) -> dict[str, tf.Tensor]:
    if head.binary:
        output = tf.reshape(output, [-1])
        second = tf.sigmoid(output) if head.logits else output
        probability = tf.stack([1 - second, second], axis=1)
        raw = tf.stack([-output, output], axis=1) if head.logits else probability
    else:
        raw = output
        probability = tf.nn.softmax(raw) if head.logits else raw
    prediction = tf.cast(tf.argmax(probability, axis=1), tf.float64)
    return {"raw": raw, "probability": probability, "prediction": prediction}
