"""Programs captured from TensorFlow 2's variables, loss and optimizer; no Keras, no Spark."""
