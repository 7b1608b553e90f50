"""Hosts with links of a given speed: network namespaces of this machine; needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

NETWORK = "10.199.78"
"""Of the hosts' addresses, of which the last number counts the hosts from 1."""


OWNER = "TOS_BENCHMARK_HOSTS"
"""The variable that tells processes on hosts what the others are called."""

_counter = count(1)


def address(host: int) -> str:
    """Return the address of a host, which counts from 0."""
    return f"{NETWORK}.{host + 1}"


def inside(host: int) -> tuple[str, ...]:
    """Return what stands before a command that runs on a host."""
    return "ip", "netns", "exec", _name(host)


@contextmanager
def hosts(number: int, megabits: float) -> Iterator[None]:
    """Make so many hosts, each with a link of so many Mb/s in each direction."""
    # Linux takes its time to remove what had the names before.
    os.environ[OWNER] = f"{os.getpid() % 10**5}x{next(_counter)}"
    bridge = f"br{os.environ[OWNER]}"
    _ip("link", "add", bridge, "type", "bridge")
    made = 0
    try:
        _ip("link", "set", bridge, "up")
        for host in range(number):
            _ip("netns", "add", _name(host))
            made += 1
            _connect(host, bridge, megabits)
        yield
    finally:
        for host in range(made):
            _ip("netns", "delete", _name(host))
        _ip("link", "delete", bridge)


def _connect(host: int, bridge: str, megabits: float) -> None:
    name, outer, inner = _name(host), f"{_name(host)}a", f"{_name(host)}b"
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
    _ip("link", "set", outer, "master", bridge, "up")
    _ip("-n", name, "address", "add", f"{address(host)}/24", "dev", inner)
    for what in ("lo", inner):
        _ip("-n", name, "link", "set", what, "up")
    limit = ("root", "tbf", "rate", f"{megabits:g}mbit", "burst", "1mb", "latency", "50ms")
    _run("tc", "qdisc", "add", "dev", outer, *limit)
    _run("tc", "-n", name, "qdisc", "add", "dev", inner, *limit)


def _name(host: int) -> str:
    return f"th{os.environ[OWNER]}-{host}"


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
