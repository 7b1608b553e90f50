"""A model without weights gets them by its data, or says why it cannot."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from tos_notebook.errors import CaptureError
from tos_notebook.training.unbuilt import build

WORDS = np.array([["a"], ["b"]])
LABELS = np.ones((2, 1))


class Subclass(keras.Model):
    """Looks words up in its call."""

    def __init__(self, lookup: Any) -> None:
        super().__init__()
        self.lookup = lookup
        self.cast = layers.Rescaling(1.0)
        self.dense = layers.Dense(1)

    def call(self, words: Any) -> Any:
        return self.dense(self.cast(self.lookup(words)))


def made(lookup: Any, sequential: bool) -> Any:
    model: Any = Subclass(lookup)
    if sequential:
        model = keras.Sequential([lookup, layers.Rescaling(1.0), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("kind", [layers.StringLookup, layers.TextVectorization])
def test_a_lookup_without_a_vocabulary_is_named(kind: Any, sequential: bool) -> None:
    options = {} if kind is layers.StringLookup else {"output_sequence_length": 1}
    lookup = kind(name="colors", **options)
    model = made(lookup, sequential)
    with pytest.raises(CaptureError, match=rf"^{kind.__name__} 'colors': expected a vocabulary"):
        build(model, None, (WORDS, LABELS))
    lookup.set_vocabulary(["a", "b"])
    build(model, None, (WORDS, LABELS))
    assert model.built


def test_another_reason_is_told_as_it_is() -> None:
    model = made(layers.Dense(2), sequential=False)
    with pytest.raises(CaptureError, match="cannot be called on rows like those of the data"):
        build(model, None, (WORDS, LABELS))
