"""What works on the driver during a run, such as validation; a run never waits for it."""
