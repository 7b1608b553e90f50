"""A run whose server is in a Spark task, and what follows it from the notebook."""
