"""All-reduce: who sends what to whom, links between workers, and the mean that all agree on."""
