"""Training data on the driver's side: arrays, RDDs, DataFrames, files; nothing trains here."""
