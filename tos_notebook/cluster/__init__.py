"""Spark: connecting to a cluster, its executors and its file system; no training."""
