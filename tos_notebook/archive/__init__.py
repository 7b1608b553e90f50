"""A captured program as an archive, described without TensorFlow: what it is fed and returns."""
