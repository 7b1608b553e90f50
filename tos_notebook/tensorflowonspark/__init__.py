"""The names of TensorFlowOnSpark, for its programs to run with other import lines."""

__version__ = "2.2.5"
"""The release of TensorFlowOnSpark whose API this is."""
