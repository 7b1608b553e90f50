"""Carrying messages between workers and the server: over TCP, or within one process."""
