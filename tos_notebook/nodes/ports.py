"""The port of a node's TensorFlow server: taken before it is told to others, and kept until then.

A socket that is bound and does not listen keeps others from the port. TensorFlow's own server may
bind it all the same, as both say that they share it (``SO_REUSEPORT``); the kernel lets only
processes of the same user share.
"""

from __future__ import annotations

import os
import socket

from ..errors import ConfigError, TransportError

FIXED = "TENSORFLOW_PORT"
"""The executor's environment variable that names the port."""

SHARED = "TF_GRPC_REUSE_PORT"
"""What lets TensorFlow's server share its port, if it is 1 in the environment."""


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
