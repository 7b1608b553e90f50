"""Programs captured from TF1-style graphs."""
