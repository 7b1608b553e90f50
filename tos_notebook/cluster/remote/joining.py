"""A Spark task as a second client of a Spark Connect session, and what it is given of the first."""

from __future__ import annotations

import io
import os
import pickle
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import ClusterUnreachable, ConnectError
from .address import PORT, SCHEME, address_of, is_loopback
from .context import RemoteContext, context_of_session
from .mailbox import Mailbox
from .opening import check_protocol
from .tasks import Sent

ANSWER = 10.0
"""Seconds for a server's port to answer a task."""

INSTEAD = (
    "Or let executors reach this machine: set spark.tos.server.host and spark.tos.server.port."
)
"""What helps where a task cannot have the server."""

GREETING = "greeting"
"""The letter by which a task knows the server of its client."""

_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""Where PySpark's functions look for whom they are made: in a task, not for Spark Connect."""

_PLAN_IDS = 1 << 40
"""From which on a task numbers its plans, so that those of its client have other numbers."""


@dataclass(frozen=True, slots=True, repr=False)
class Way:
    """How a task finds the client's session. It is not shown: it may hold the client's token."""

    addresses: tuple[str, ...]
    """Of the server, as host:port, in the order in which they are tried."""
    parameters: Mapping[str, str]
    """Of the connection."""
    mailbox: str
    """The prefix of the mailbox in which the client has left a greeting."""
    greeting: bytes

    def mail(self, session: Any) -> Mailbox:
        """Return the mailbox."""
        return Mailbox(session, self.mailbox)


def is_repeated() -> bool:
    """Return whether an earlier attempt of the present task was lost."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and bool(context.attemptNumber())


def way_to(context: RemoteContext, mailbox: str, greeting: bytes) -> Way:
    """Return how a task joins the session of this client, and leave it a greeting.

    Raises
    ------
    ConnectError
        The session goes over a channel that a task cannot open.
    """
    client = context.session.client
    builder = client._builder
    if type(builder).__name__ != "DefaultChannelBuilder":
        raise ConnectError(
            f"Expected a session that sc://host:port has opened, got one by "
            f"{type(builder).__name__}, which a Spark task cannot open again. {INSTEAD}"
        )
    own = context.setting("spark.driver.host", "")
    port = int(context.setting("spark.connect.grpc.binding.port", str(PORT))) or PORT
    parameters = {**builder._params, "session_id": str(context.session.session_id)}
    if client._user_id is not None:
        parameters["user_id"] = client._user_id
    if builder.token:
        # It may come from the environment.
        parameters["token"] = builder.token
    addresses = [builder.endpoint, *([f"{own}:{port}"] if own else [])]
    if is_loopback(address_of(builder.endpoint)[0]):
        # Another machine's own loopback address may lead to another server, or nowhere.
        addresses.reverse()
    way = Way(tuple(dict.fromkeys(addresses)), parameters, mailbox, greeting)
    way.mail(context.session).put(GREETING, greeting)
    return way


def join(way: Way) -> RemoteContext:
    """Open the client's session in this process.

    Raises
    ------
    ClusterUnreachable
        No address leads to it.
    """
    failures = []
    os.environ[_MODE] = "1"
    for address in way.addresses:
        try:
            with socket.create_connection(address_of(address), ANSWER):
                pass
            session = _opened(way, address)
        except Exception as error:
            failures.append(
                f"{address} ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            )
            continue
        return context_of_session(session)
    os.environ.pop(_MODE, None)
    raise ClusterUnreachable(
        "The Spark task that was to have the run's server does not reach the Spark Connect server "
        f"at {', nor at '.join(failures)}. {INSTEAD}"
    )


def _opened(way: Way, address: str) -> Any:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.plan import LogicalPlan
    from pyspark.sql.connect.session import SparkSession

    builder = DefaultChannelBuilder(f"{SCHEME}{address}")
    for key, value in way.parameters.items():
        builder.set(key, value)
    check_protocol(f"{SCHEME}{address}", builder)
    session = SparkSession.builder.channelBuilder(builder).create()
    try:
        if way.mail(session).get(GREETING) != way.greeting:
            raise ConnectError("another Spark Connect server answers there")
    except BaseException:
        _close(session)
        raise
    LogicalPlan._nextPlanId = max(LogicalPlan._nextPlanId, _PLAN_IDS)
    return session


def leave(session: Any) -> None:
    """Close this process's connection; the session is the client's, and stays."""
    os.environ.pop(_MODE, None)
    _close(session)


def _close(session: Any) -> None:
    session.release_session_on_close = False
    with suppress(Exception):
        session.stop()


def run_apart(context: RemoteContext, module: str, way: Way, sent: Sent) -> list[bytes]:
    """Run the ``drive`` of a module in one task, to its end; return what it yields.

    Parameters
    ----------
    context : RemoteContext
    module : str
        Of this package, which executors have installed. Its ``drive`` takes `way` and `sent`.
    way : Way
    sent : Sent
    """

    def run(partition: int, numbers: Iterable[Any]) -> Iterator[bytes]:
        import importlib

        for _ in numbers:
            pass
        found: Iterator[bytes] = importlib.import_module(module).drive(way, sent)
        return found

    # A closure, because it is pickled by value.
    found: list[bytes] = context.parallelize([0], 1).mapPartitionsWithIndex(run).collect()
    return found


def packed(value: Any) -> bytes:
    """Return a value for a task's function, with DataFrames of the session as their plans."""
    from pyspark.cloudpickle import CloudPickler

    class Pickler(CloudPickler):
        def persistent_id(self, given: Any) -> Any:
            if not _is_frame(given):
                return None
            return given._plan.to_proto(given._session.client).SerializeToString()

    content = io.BytesIO()
    Pickler(content, 5).dump(value)
    return content.getvalue()


def unpacked(content: bytes, session: Any) -> Any:
    """Return what `packed` was given, which came with the task's function; in another client.

    Parameters
    ----------
    content : bytes
    session : pyspark.sql.connect.session.SparkSession
        Has the DataFrames.
    """

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, plan: Any) -> Any:
            return _frame(plan, session)

    return Unpickler(io.BytesIO(content)).load()


def _is_frame(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__ == "pyspark.sql.connect.dataframe"


def _frame(content: bytes, session: Any) -> Any:
    from pyspark.sql.connect import proto
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    given = proto.Plan()
    given.ParseFromString(content)

    class Given(LogicalPlan):
        def __init__(self) -> None:
            super().__init__(None)
            self._root_plan_id = given.root.common.plan_id

        def plan(self, session: Any) -> Any:
            return given.root

    return DataFrame(Given(), session)
