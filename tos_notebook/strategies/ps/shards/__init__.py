"""The parameter server in several processes, each of which has a part of the parameters."""
