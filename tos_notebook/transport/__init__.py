"""Carrying messages between workers and server, by TCP or in a process; no training."""
