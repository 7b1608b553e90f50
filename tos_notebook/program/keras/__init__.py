"""Programs captured from Keras models, and all else that knows Keras; no Spark."""
