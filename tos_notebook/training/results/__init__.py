"""What a run leaves to take away, such as the model card; nothing here changes a run."""
