"""Asks the fast path for whatever it may be asked, and sends it pushes, or what nearly is one."""

from __future__ import annotations

import random
import socket
import struct
from types import ModuleType
from typing import Any

import numpy as np

BEGINS = b"TOSN\x01\x05\0\0"
"""What a push's frame begins with."""
HIGH = 2.0**40
NBYTES = 1024
REPLY = BEGINS + bytes(38)
CHUNK = 4096


class Client:
    """One connection, and its peer."""

    def __init__(self, module: ModuleType, poller: Any) -> None:
        self.near, far = socket.socketpair()
        self.near.setblocking(False)
        self.far = far
        self.peer = module.Peer(far.fileno(), bytearray(CHUNK))
        self.peer.key = self
        self.update = np.ones(NBYTES // 4, np.float32).view(np.uint8)
        self.apart, self.metrics, self.sequence, self.request = True, 1, 0, 0
        poller.register(self.peer)

    def close(self, poller: Any) -> None:
        """Leave."""
        poller.unregister(self.peer)
        self.near.close()
        self.far.close()


class FastPath:
    """A path with some clients.

    Parameters
    ----------
    module : module
        The extension.
    chance : Random
    """

    def __init__(self, module: ModuleType, chance: random.Random) -> None:
        self._module, self._chance = module, chance
        self._poller = module.Poller()
        # What wakes it is never taken: no wait waits.
        self._poller.wake()
        self._paths = [self._path() for _ in range(2)]
        self._clients = [Client(module, self._poller) for _ in range(3)]

    def _path(self) -> Any:
        made = self._module.Path(np.zeros(NBYTES, np.uint8), BEGINS, HIGH, REPLY)
        made.use(((0, 512, False, 0, 0.0), (512, 512, True, 2, 0.5)))
        made.settle = lambda: made.take()
        return made

    def act(self) -> str:
        """Do one thing; return what came of it."""
        client, path = self._chance.choice(self._clients), self._chance.choice(self._paths)
        do = self._chance.choice(
            [self._push] * 6 + [self._arm] * 2 + [self._change, self._look, self._reply]
        )
        try:
            return do(client, path)
        except (TypeError, ValueError, BufferError, OverflowError, BlockingIOError) as error:
            return type(error).__name__

    def _arm(self, client: Client, path: Any) -> str:
        chance = self._chance
        client.apart, client.metrics = chance.random() < 0.5, chance.choice([0, 1, 8, 9, -1])
        size = NBYTES if chance.random() < 0.9 else chance.choice([0, 8, NBYTES + 8])
        client.update = np.ones(size // 4, np.float32).view(np.uint8)
        update = client.update if chance.random() < 0.95 else chance.choice([None, b"123"])
        place = 0, client.sequence, 0, client.metrics
        return f"armed {client.peer.arm(path, client, update, client.apart, *place)}"

    def _push(self, client: Client, path: Any) -> str:
        chance = self._chance
        metrics = max(0, client.metrics)
        wholes = [0, client.sequence, 2, 4, 0, 0]
        if chance.random() < 0.1:
            wholes[chance.randrange(6)] = chance.choice([-1, 1, 2**62, 2**40])
        times = [0.5] * 5 if chance.random() < 0.9 else [chance.choice([np.nan, -1.0, 1e300])] * 5
        body = struct.pack(">6q?5dq16sH", *wholes, True, *times, 4, bytes(16), metrics)
        body += struct.pack(f">{metrics}d", *[0.25] * metrics)
        payload = bytes(len(client.update)) if client.apart else b""
        client.request += 1
        frame = (
            BEGINS + struct.pack(">IIQ", client.request, len(body), len(payload)) + body + payload
        )
        if chance.random() < 0.1:
            frame = frame[: chance.randrange(1, len(frame))]
        elif chance.random() < 0.1:
            frame += bytes(chance.choice([1, 500, CHUNK]))
        client.near.send(frame)
        left = self._poller.wait()
        if client in left:
            received, unsent = client.peer.take_received(), client.peer.take_unsent()
            return "left" if received < 0 and not unsent else "handed over"
        if chance.random() < 0.9:
            client.near.recv(2 * CHUNK)
        client.sequence += 1
        return "pushed"

    def _change(self, client: Client, path: Any) -> str:
        chance = self._chance
        what = chance.choice(["pause", "hold", "forget", "take", "use", "version", "leave", "path"])
        if what == "pause":
            path.pause()
            path.resume(chance.random() < 0.5)
        elif what == "hold":
            path.hold()
            self._poller.wait()
            path.release()
        elif what in ("forget", "take"):
            getattr(path, what)()
        elif what == "use":
            start, nbytes = chance.choice([0, 8, -8, 3, NBYTES]), chance.choice([8, NBYTES, 2**62])
            path.use(((start, nbytes, True, chance.choice([0, 1, 2, 3]), 1e3),))
        elif what == "version":
            path.version = chance.choice([0, 5, 2**62])
        elif what == "path":
            self._paths[chance.randrange(2)] = self._path()
        else:
            client.close(self._poller)
            self._clients[self._clients.index(client)] = Client(self._module, self._poller)
        return what

    def _look(self, client: Client, path: Any) -> str:
        client.peer.take_received()
        client.peer.take_unsent()
        return f"raised {path.raised}"

    def _reply(self, client: Client, path: Any) -> str:
        chance = self._chance
        payload, room = chance.choice([0, 8, 900]), chance.choice([0, 8, 900, CHUNK])
        frame = BEGINS + struct.pack(">IIQ", 1, 22, payload) + bytes(22 + payload)
        frame = frame[: chance.choice([len(frame), len(frame), chance.randrange(1, len(frame))])]
        near, far = socket.socketpair()
        with near, far:
            far.send(frame + bytes(chance.choice([0, 0, 1, CHUNK])))
            near.setblocking(chance.random() < 0.5)
            far.shutdown(socket.SHUT_WR)
            target = None if not room else bytearray(room)
            number = chance.choice([1, 1, 2, 2**40])
            begins = chance.choice([BEGINS, BEGINS, BEGINS[:3]])
            read = self._module.receive_reply
            found = read(near.fileno(), bytearray(CHUNK), target, begins, number)
        return "replied" if isinstance(found, tuple) else "no reply"
