"""Records as columns of NumPy arrays, and which partition each goes to. No Spark, no TensorFlow."""
