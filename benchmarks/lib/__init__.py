"""What the programs share: the table, data, networks, and the sides that they compare."""
