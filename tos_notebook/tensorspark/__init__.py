"""The names of the original TensorOnSpark, for its programs to run unchanged; no others."""
