"""What a run leaves to take away: files and the model card."""
