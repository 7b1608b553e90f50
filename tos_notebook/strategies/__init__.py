"""How what workers learn is combined: the protocols here, each strategy in a folder of its own."""
