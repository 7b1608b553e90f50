"""What workers have, and whether they reach the driver: found out before there is a server."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

KNOCK_TIMEOUT = 5.0
"""Seconds for an executor's way to the driver. Within a data center it takes milliseconds."""

_NONCE_BYTES = 16


class ReachabilityProbe:
    """A listener that tells each client a number that only this process knows.

    So that an executor which reaches another program at this address, as at ``localhost``, finds
    out. A context manager; leaving it closes the port.

    Parameters
    ----------
    contact : str
        The address that executors are given.
    port : int
        0 for any free one.
    timeout : float
        Seconds for it to answer an executor.

    Attributes
    ----------
    port : int
        Where it listens.
    address : str
        What executors are given, as host:port.

    Raises
    ------
    OSError
        The port cannot be listened on.
    """

    def __init__(self, contact: str, port: int = 0, timeout: float = KNOCK_TIMEOUT) -> None:
        self._contact = contact
        self._timeout = timeout
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        host = listening_host(contact)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.create_server((host, port), family=family)
        self.port: int = self._sock.getsockname()[1]
        self.address = f"{contact}:{self.port}"
        self._thread = threading.Thread(target=self._serve, name="tos-reachability", daemon=True)
        self._thread.start()

    def knock(self) -> Callable[[], str]:
        """Return a function for executors; it says why they do not reach this, or nothing.

        A closure, because those are pickled by value: it must run where this package is missing.
        """
        host, port, nonce, timeout = self._contact, self.port, self._nonce, self._timeout

        def knock() -> str:
            import socket

            try:
                with socket.create_connection((host, port), timeout) as sock:
                    heard = sock.recv(len(nonce), socket.MSG_WAITALL)
            except (OSError, OverflowError) as error:
                return f"{type(error).__name__}: {error}"
            return "" if heard == nonce else "another program answers there"

        return knock

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._sock.accept()
            except OSError:
                return
            # So few bytes never wait for the peer.
            with suppress(OSError), peer:
                peer.sendall(self._nonce)

    def __enter__(self) -> ReachabilityProbe:
        return self

    def __exit__(self, *error: object) -> None:
        # Closing alone would not wake the thread.
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()


def listening_host(contact: str) -> str:
    """Return the address to listen on: all, unless executors come over the loopback.

    Behind a container's or a cloud's address translation the contact address is none of ours.
    """
    loopback = contact == "localhost" or contact.startswith("127.") or contact == "::1"
    return contact if loopback else ""


def make_probe(
    names: Sequence[str], cores: int, reach: ReachabilityProbe | None = None
) -> Callable[[Iterable[Any]], Any]:
    """Return a function for `mapPartitions` that reports on the worker it runs in.

    A closure, because those are pickled by value: it must run where this package is missing.

    Parameters
    ----------
    names : sequence of str
        Packages to import.
    cores : int
        Threads TensorFlow may use.
    reach : ReachabilityProbe, optional
        What the worker is to reach.
    """
    knock, address = (reach.knock(), reach.address) if reach else (lambda: "", "")

    def probe(_: Iterable[Any]) -> Iterator[dict[str, Any]]:
        import importlib
        import os
        import platform
        import socket
        import sys

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        packages, missing = {}, {}
        # TensorFlow's greeting, which no setting silences, would end in a notebook's cell.
        stderr, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        try:
            try:
                # It leaves out what TensorFlow would load on its own account.
                runner = importlib.import_module("tos_notebook.runtime.runner")
            except Exception:
                # Named below, one by one.
                runner = None
            for name in names:
                try:
                    packages[name] = str(getattr(importlib.import_module(name), "__version__", ""))
                except Exception as error:
                    missing[name] = f"{type(error).__name__}: {error}"
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            os.close(quiet)
        configure = getattr(runner, "configure_threads", None)
        if configure is not None:
            configure(cores)
        failure = knock()
        yield {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": packages,
            "missing": missing,
            "unreached": failure and f"{address} ({failure})",
        }

    return probe
