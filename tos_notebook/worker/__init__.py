"""The loop over one partition on an executor; Spark and TensorFlow come from outside."""
