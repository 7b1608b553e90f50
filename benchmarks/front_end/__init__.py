"""Programs that measure the live view and the panel, in a kernel and in a browser."""
