"""Published results, reproduced with the project's own server and workers."""
