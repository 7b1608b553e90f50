"""A run from the caller's side: sessions, runs, their Spark jobs, and runs that were saved."""
