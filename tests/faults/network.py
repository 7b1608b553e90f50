"""A network of its own for a node, which can be cut; needs root and iproute2."""

from __future__ import annotations

import os
import subprocess

HERE, THERE = "10.199.77.1", "10.199.77.2"
"""The addresses of this machine, and of the node behind the wire."""


class Wire:
    """A network namespace, and the pair of interfaces that joins it to this machine.

    A context manager, which removes both.
    """

    def __init__(self) -> None:
        self.name = f"tos{os.getpid()}"
        self.prefix = ("ip", "netns", "exec", self.name)

    def __enter__(self) -> Wire:
        here, there = f"{self.name}a", f"{self.name}b"
        _ip("netns", "add", self.name)
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
        _ip("address", "add", f"{HERE}/24", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", self.name, "address", "add", f"{THERE}/24", "dev", there)
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.connect()
        return self

    def __exit__(self, *error: object) -> None:
        # The interfaces go with it.
        _ip("netns", "delete", self.name)

    def cut(self) -> None:
        """Let nothing through, without notice."""
        _ip("-n", self.name, "link", "set", f"{self.name}b", "down")

    def connect(self) -> None:
        """Let everything through."""
        _ip("-n", self.name, "link", "set", f"{self.name}b", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
