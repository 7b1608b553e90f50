"""Checkpoints: what a run needs to go on after its process has died."""
