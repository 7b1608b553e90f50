"""Programs that measure what many workers, large models and slow workers cost."""
