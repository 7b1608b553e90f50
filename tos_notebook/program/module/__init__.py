"""Programs captured from plain TensorFlow 2: variables, a loss and an optimizer."""
