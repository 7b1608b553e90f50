"""TensorFlow where a program runs, in an executor or the driver. No Spark, no Keras."""
