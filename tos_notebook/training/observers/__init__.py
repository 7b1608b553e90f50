"""What works on the driver beside a run: validation, callbacks, schedules, event files."""
