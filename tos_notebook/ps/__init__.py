"""The parameter server's state: who pushed what, and the center it was merged into."""
