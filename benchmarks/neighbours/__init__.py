"""The same network, trained by another package and by this one, on one machine in one run."""
