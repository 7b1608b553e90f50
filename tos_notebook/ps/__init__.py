"""The parameter server's state: who pushed what, and the centre it was merged into."""
