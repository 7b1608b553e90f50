"""The loop over one partition in an executor's Python process."""
