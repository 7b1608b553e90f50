"""The parameter server in the driver, with its worker's side; it counts no batches."""
