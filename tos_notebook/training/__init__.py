"""A run from the caller's side: sessions, runs, Spark jobs, saved runs; no view, no magic."""
