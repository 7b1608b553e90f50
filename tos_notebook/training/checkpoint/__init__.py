"""What a run saves to continue after its process has died, and the thread that writes it."""
