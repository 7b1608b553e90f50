"""Predictions and evaluation, spread over Spark's executors."""
