"""The driver's side of programs, in a form that any executor trains; no run, no Spark job."""
