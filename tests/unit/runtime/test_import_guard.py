"""TensorFlow without Keras, in a process of its own: this one has both."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import tos_notebook.runtime.runner
assert "tensorflow" in sys.modules
assert not {"keras", "sklearn", "pandas"} & set(sys.modules), "Keras was loaded"
import tensorflow as tf
from tensorflow.keras.layers import Dense
assert tf.keras.layers.Dense is Dense
import keras
assert keras.layers.Dense is Dense
assert not [each for each in sys.meta_path if type(each).__module__.startswith("tos_notebook")]
"""


def test_keras_is_left_out_and_there_when_somebody_wants_it() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
