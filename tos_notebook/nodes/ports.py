"""The port of a node's TensorFlow server: taken before it is told to others, and kept until then.

A socket that is bound and does not listen keeps others from the port. TensorFlow's own server may
bind it all the same, as both say that they share it (``SO_REUSEPORT``); the kernel lets only
processes of the same user share.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import ConfigError, TransportError
from ..transport.sockets import is_loopback

logger = logging.getLogger(__name__)

FIXED = "TENSORFLOW_PORT"
"""The executor's environment variable that names the port."""

SHARED = "TF_GRPC_REUSE_PORT"
"""What lets TensorFlow's server share its port, if it is 1 in the environment."""

_ADDRESS = re.compile(r"\|-- ([\d.]+)\n +/32 host LOCAL")
_NETWORK = Path("/proc/net")


def hold_port(ports: tuple[int, int] = (0, 0)) -> socket.socket:
    """Return a socket that keeps a port for a TensorFlow server of this user.

    Parameters
    ----------
    ports : (int, int)
        The first and the last that may be taken; 0 for any. `FIXED` goes before it.

    Raises
    ------
    ConfigError
        `FIXED` is no number.
    TransportError
        None of them is free.
    """
    fixed = os.environ.get(FIXED)
    if fixed and not fixed.isdecimal():
        raise ConfigError(f"{FIXED}: expected a port, got {fixed!r}.")
    first, last = (int(fixed), int(fixed)) if fixed else ports
    for port in range(first, max(first, last) + 1):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            if port and _listens(port):
                raise OSError(f"a server listens on port {port}")
            sock.bind(("", port))
        except (OSError, OverflowError) as error:
            sock.close()
            problem = error
        else:
            return sock
    raise TransportError(
        f"Expected a free port for TensorFlow's server among {first} to {max(first, last)}: "
        f"{problem}. Set {FIXED} to a free port, or leave it out for any."
    )


def _listens(port: int) -> bool:
    """Whether someone listens, who may share the port with us."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(1.0)
        return sock.connect_ex(("127.0.0.1", port)) == 0


def shield(port: int) -> list[socket.socket]:
    """Keep a port from the network: return sockets that take what comes there from other hosts.

    TensorFlow's server listens on all interfaces, and can be told no other. The kernel prefers
    the socket that listens on the very address; these do, and never answer. An interface that
    comes later has none.

    Parameters
    ----------
    port : int
        Where all others say that they share it, too.
    """
    found = []
    for family, address in _outer_addresses(port):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(1)
            found.append(sock)
        except OSError as error:
            sock.close()
            logger.warning("Port %s is open to the network at %s: %s", port, address[0], error)
    return found


def _outer_addresses(port: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the port at the addresses by which other hosts reach this one."""
    with suppress(OSError):
        for host in sorted(set(_ADDRESS.findall((_NETWORK / "fib_trie").read_text()))):
            if not is_loopback(host):
                yield socket.AF_INET, (host, port)
    with suppress(OSError):
        for line in (_NETWORK / "if_inet6").read_text().splitlines():
            digits, interface, *_ = line.split()
            host = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
            if not is_loopback(host):
                yield socket.AF_INET6, (host, port, 0, int(interface, 16))
