"""What works on the driver beside a run's training: validation, callbacks, event files."""
