"""The driver's side of captured programs: TensorFlow models in a form that any executor trains."""
