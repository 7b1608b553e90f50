"""Programs that measure the way from nothing to a first curve: packages, Spark, a notebook."""
