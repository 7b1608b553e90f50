"""What works on the driver beside a run, such as validation; a run never waits for it."""
