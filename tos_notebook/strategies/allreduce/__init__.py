"""All workers make each step together, by the mean of what they bring; it counts no batches."""
