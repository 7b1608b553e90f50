"""The names of TensorFlowOnSpark, for its programs to run with other import lines."""
