"""Spark Connect: the same jobs through a server, without a JVM in this process."""
