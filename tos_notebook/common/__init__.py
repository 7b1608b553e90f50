"""What every part may use and what knows nothing of training: arrays, checks, threads, files."""
