"""State as JSON and arrays in a sealed file, without pickle; not what a run saves of itself."""
