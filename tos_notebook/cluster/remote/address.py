"""The address of a Spark Connect server."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

SCHEME = "sc://"
"""How it begins."""

PORT = 15002
"""Where a server listens unless it is told otherwise."""


def address_of(endpoint: str) -> tuple[str, int]:
    """Return host and port of a server's endpoint, such as ``localhost:15002``."""
    found = urlsplit(f"{SCHEME}{endpoint}")
    return found.hostname or endpoint, found.port or PORT


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by a name that each machine has for itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address(master: Any) -> bool:
    """Whether this is the address of a Spark Connect server."""
    return isinstance(master, str) and master.startswith(SCHEME)


def shown(address: str) -> str:
    """Return an address without its parameters, of which one may be a token.

    Parameters
    ----------
    address : str
    """
    return SCHEME + address.removeprefix(SCHEME).partition("/")[0]
