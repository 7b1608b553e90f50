"""What a run shows of its parameters and leaves to take away: figures, files, a model card."""
