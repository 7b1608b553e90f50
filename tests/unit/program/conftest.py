from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def fresh_keras() -> Iterator[None]:
    """Keras with a seed; what a test has set or made is gone after it."""
    import keras

    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
    keras.utils.clear_session(free_memory=False)
