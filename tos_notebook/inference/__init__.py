"""Predictions and evaluation, spread over Spark's executors; nothing is trained here."""
