"""Programs captured from TF1-style graphs; no Keras, no Spark."""
