"""How what workers learn is combined; each strategy has a folder of its own."""
