"""What a shard's process does: it serves workers, and obeys the driver.

The shard calls the driver, as workers do, and asks what to do: no port of the driver's network has
to be open to it, and no worker can command it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ....combiners.base import Combiner
from ....combiners.registry import MADE
from ....common.arrays import Array, Buffer
from ....common.served import ServedTable
from ....errors import RemoteProtocolError, TosError
from ....layout import Layout
from ....persist.described import rebuild
from ....persist.parts import PartPlace
from ....transport.base import Connection
from ....transport.listener import TcpListener
from ....wire.messages import Done, Order, Request, Serving
from ....worker.beside import SidePlace
from ....worker.exchange import expect
from ....worker.usage import UsageMeter
from ..push import Copied
from ..served.orders import RowOrders
from ..served.shard import ServedRows
from ..stripes import Lengths
from . import parcel
from .center import ShardCenter
from .peer import ShardHandler
from .staging import Reached, Staging
from .writing import PartWriting

END = 5.0
"""Seconds for a part that is not wanted any more to end."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """Serves one part of the parameters until the driver ends it.

    Parameters
    ----------
    token : str
        What the driver knows its shards by.
    generation : str
        What workers must name.
    layouts : tuple of Layout
        Of each shard's part.
    lengths : Lengths
        Of stripes.
    combiner : Combiner
    served : tuple of ServedTable
        Tables of which each shard has rows.
    """

    token: str
    generation: str
    layouts: tuple[Layout, ...]
    lengths: Lengths
    combiner: Combiner
    served: tuple[ServedTable, ...] = ()

    def __call__(self, number: int, place: SidePlace) -> None:
        """Serve shard `number`; return when the driver says so, or is gone."""
        layout = self.layouts[number]
        center = ShardCenter(layout, layout.allocate(), self.combiner, self.lengths)
        staging = Staging(center, ServedRows(self.served, number, len(self.layouts)))
        endpoint = place.endpoint
        listener = TcpListener(
            lambda peer: ShardHandler(self.generation, staging), place.secret, endpoint
        )
        with closing(listener), closing(Shard(staging)) as shard:
            listener.start()
            address, fingerprint = listener.address, listener.fingerprint
            follow(
                place.connection,
                Serving(
                    self.token,
                    number,
                    endpoint.host,
                    address.port,
                    fingerprint.hex() if fingerprint else "",
                    os.getpid(),
                ),
                shard,
            )


class Shard:
    """Obeys the driver's orders.

    Parameters
    ----------
    staging : Staging
    """

    def __init__(self, staging: Staging) -> None:
        self.staging = staging
        self._copies: dict[int, Copied] = {}
        self._writing: dict[int, PartWriting] = {}
        self._leaving: list[PartWriting] = []
        self._orders: Mapping[str, Callable[[Any, list[Array]], Buffer | None]] = {
            "load": self._load,
            "swap": self._swap,
            "copy": self._copy,
            "send": self._send,
            "write": self._write,
            "written": self._written,
            "forget": self._forget,
            **RowOrders(staging.rows).orders,
        }

    def obey(self, order: Order, payload: memoryview | None) -> Buffer | None:
        """Do what an order says; return what was asked for, if anything.

        Raises
        ------
        Exception
            It could not be done.
        """
        do = self._orders.get(order.what)
        if do is None:
            raise RemoteProtocolError(
                f"Order.what: expected one of {', '.join(self._orders)}, got {order.what!r}."
            )
        return do(*parcel.unpack(payload))

    def _load(self, value: Any, arrays: list[Array]) -> None:
        center = self.staging.center
        if value["state"] is None:
            center.load(arrays[0])
            center.go_on(value["version"], None)
        else:
            center.restore(Copied(arrays[0], value["version"], value["state"], arrays[1:]))

    def _swap(self, value: Any, arrays: list[Array]) -> None:
        self.staging.center.swap(rebuild(value, MADE))

    def _copy(self, value: Any, arrays: list[Array]) -> None:
        self.staging.resolve({p: Reached((e, s), workers) for p, e, s, workers in value["reached"]})
        center = self.staging.center
        copied = center.snapshot() if value["state"] else Copied(*center.read(), {}, [])
        self._copies[value["copy"]] = copied

    def _held(self, value: Any) -> Copied:
        copied = self._copies.get(value["copy"])
        if copied is None:
            raise RemoteProtocolError("Expected an order to copy first.")
        return copied

    def _send(self, value: Any, arrays: list[Array]) -> Buffer:
        copied = self._held(value)
        if not value["copy"]:
            del self._copies[0]
        return parcel.pack(
            {"version": copied.version, "state": copied.state}, [copied.center, *copied.arrays]
        )

    def _write(self, value: Any, arrays: list[Array]) -> None:
        copied = self._held(value)
        described = {**value["described"], "version": copied.version, "state": copied.state}
        content = [copied.center, *copied.arrays]
        place = PartPlace(*value["place"])
        self._writing[value["copy"]] = PartWriting(place, value["own"], described, content)

    def _written(self, value: Any, arrays: list[Array]) -> Buffer:
        return parcel.pack(self._writing[value["copy"]].outcome())

    def _forget(self, value: Any, arrays: list[Array]) -> None:
        self._copies.pop(value["copy"], None)
        if writing := self._writing.pop(value["copy"], None):
            writing.cancel()
            self._leaving = [each for each in (*self._leaving, writing) if each.going_on]

    def close(self) -> None:
        """End what is being written."""
        for writing in (*self._writing.values(), *self._leaving):
            writing.cancel(END)


def follow(connection: Connection, serving: Serving, shard: Shard) -> None:
    """Ask the driver what to do, and do it, until it says that the run is over.

    Raises
    ------
    TransportError
        The driver is gone.
    """
    message: Request = serving
    usage = UsageMeter()
    payload: Buffer | None = None
    while True:
        answer, received = connection.request(message, payload)
        order = expect(Order, answer, message)
        if order.what == "end":
            return
        payload, error = None, shard.staging.failed
        if order.number and error is None:
            try:
                payload = shard.obey(order, received)
            except Exception as raised:
                error = raised
        version = shard.staging.center.version
        cpu, memory = usage.read()
        spent = round(1000 * cpu), memory, *shard.staging.traffic.read()
        message = Done(order.number, version, *_told(error), *spent)


def _told(error: Exception | None) -> tuple[str, str]:
    if error is None:
        return "", ""
    if isinstance(error, TosError):
        return type(error).__name__, str(error)
    return "CombinerError", f"{type(error).__name__}: {error}"
