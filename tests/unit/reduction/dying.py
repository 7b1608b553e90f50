"""Rank 1 of two that share memory, which is killed at one of its signals.

python -m tests.unit.reduction.dying SIGNAL PORT SCHEDULE SECRET
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from tests.unit.reduction.conftest import LIMIT
from tos_notebook.reduction.mesh import Mesh, Peer, PeerListener
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import halving, ring, two_level
from tos_notebook.reduction.sharing import Memory, SharedLink
from tos_notebook.transport.auth import Secret
from tos_notebook.transport.base import LOOPBACK, Address

MAKE = {"ring": ring, "halving": halving, "two_level": lambda n: two_level([0] * n)}


def main(at: int, port: int, name: str, secret: str) -> None:
    """Reduce until the end."""
    left, tell = at, SharedLink._tell

    def dies(link: SharedLink) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        tell(link)

    SharedLink._tell = dies  # type: ignore[method-assign]
    listener, memory = PeerListener(Secret(bytes.fromhex(secret))), Memory(1 << 22)
    peers = [Peer(Address(LOOPBACK.host, port)), listener.here]
    mesh = Mesh(listener, 1, peers, memory=memory, near=(0, 1))
    mesh.form(LIMIT)
    reducer, vector = Reducer(mesh, MAKE[name](2)), memory.vectors.view(np.float32)
    while True:
        reducer.reduce(vector, 1.0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
