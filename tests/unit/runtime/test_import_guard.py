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
print(len(sys.meta_path))
"""


def test_keras_is_left_out_and_there_when_somebody_wants_it() -> None:
    bare = "import sys; print(len(sys.meta_path))"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
        ).stdout
        for code in (PROGRAM, "import tensorflow, keras\n" + bare)
    ]
    assert outputs[0] == outputs[1]
