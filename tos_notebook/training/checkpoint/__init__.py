"""What a run saves to continue after its process has died, and what writes it; no pickle."""
