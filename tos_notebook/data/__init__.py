"""Training data: IDX files, columnar blocks, partitioners and the driver-side sources."""
