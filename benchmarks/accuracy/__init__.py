"""Programs that measure how well a model learns, beside one process or another setting."""
