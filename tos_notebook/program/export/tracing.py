"""Functions as a SavedModel takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def traced(function: Callable[..., Any], *specs: Any) -> Any:
    """Return a function as a SavedModel takes it as it is: any other it traces again.

    Parameters
    ----------
    function : callable
    *specs : tf.TensorSpec, or list of tf.TensorSpec
        Of its arguments.
    """
    return tf.function(function, autograph=False).get_concrete_function(*specs)
