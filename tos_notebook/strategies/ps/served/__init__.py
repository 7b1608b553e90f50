"""Tables that shards have by row, for embeddings that no worker has whole."""
