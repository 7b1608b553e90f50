"""A server process that small pushes are measured against: ours, or a bare echo.

Run by its path, with the checkout to measure as ``PYTHONPATH``, so that it serves an earlier one
as well. Prints its port; then, for each line that comes, the seconds of CPU it has used so far.

    PYTHONPATH=CHECKOUT python benchmarks/lib/push_server.py {ours,bare} BYTES CLIENTS
"""

from __future__ import annotations

import selectors
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import process_time

SECRET = b"only for this benchmark, loopback"


@contextmanager
def ours(nbytes: int, clients: int) -> Iterator[int]:
    """Serve a run, as a session does; give the port."""
    from benchmarks.lib.serving import serving
    from tos_notebook.transport.auth import Secret

    with serving(nbytes, clients, Secret(SECRET)) as (server, *_):
        yield server.address.port


@contextmanager
def bare(nbytes: int, clients: int) -> Iterator[int]:
    """Send back what comes, in one thread for all, from buffers that are there."""
    listener = socket.create_server(("127.0.0.1", 0))
    with closing(listener):
        threading.Thread(target=echo, args=(listener, nbytes, clients), daemon=True).start()
        yield listener.getsockname()[1]


def echo(listener: socket.socket, nbytes: int, clients: int) -> None:
    """Accept so many clients, and send each its bytes back, until all have left."""
    with selectors.DefaultSelector() as selector:
        for _ in range(clients):
            sock, _address = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(sock, selectors.EVENT_READ, memoryview(bytearray(nbytes)))
        got = dict.fromkeys(selector.get_map(), 0)
        while selector.get_map():
            for key, _ in selector.select():
                client, buffer = key.fileobj, key.data
                assert isinstance(client, socket.socket)
                part = client.recv_into(buffer[got[key.fd] :] if got[key.fd] else buffer)
                got[key.fd] = (got[key.fd] + part) % nbytes
                if not part:
                    selector.unregister(client)
                    client.close()
                elif not got[key.fd]:
                    client.sendall(buffer)


def main() -> None:
    """Serve until the input ends."""
    kind, nbytes, clients = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with {"ours": ours, "bare": bare}[kind](nbytes, clients) as port:
        print(port, flush=True)
        for _ in sys.stdin:
            print(process_time(), flush=True)


if __name__ == "__main__":
    main()
