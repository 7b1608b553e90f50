"""Open a session of Spark Connect, or adopt one."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...errors import ClusterUnreachable, ConnectError, TosError
from .address import SCHEME, address_of, is_address, shown
from .context import context_of_session, is_remote, latest

ENVIRONMENT = "SPARK_REMOTE"
"""Where PySpark itself finds such an address."""

ANSWER = 10.0
"""Seconds for a server's port to answer."""


def remote_session(given: Any, settings: Mapping[str, str]) -> Any:
    """Return a session of Spark Connect, if one is meant; None for a Spark of this process.

    Parameters
    ----------
    given : object
        What `connect` was given.
    settings : mapping of str
        Of the session; they cannot be those of a server that runs.

    Raises
    ------
    ConnectError
        The session was stopped, another one is open, or this process has a Spark of its own.
    ClusterUnreachable
        The server does not answer, or not as a Spark Connect server.
    """
    if is_remote(given):
        return _adopted(given, settings)
    if is_address(given):
        return _opened(given, settings)
    if given is None and not _has_jvm():
        known = _active()
        if known is not None:
            return _adopted(known, settings)
        if ENVIRONMENT in os.environ:
            return _opened(os.environ[ENVIRONMENT], settings)
    return None


def _has_jvm() -> bool:
    known = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(known, "_active_spark_context", None) is not None


def _active() -> Any:
    """Return the session that runs in this process, also if the user opened it."""
    found = latest()
    if found is not None:
        return found.session
    module = sys.modules.get("pyspark.sql.connect.session")
    return None if module is None else module.SparkSession.getActiveSession()


def _adopted(session: Any, settings: Mapping[str, str]) -> Any:
    if not hasattr(session, "client"):
        raise ConnectError(
            f"Expected a session of Spark Connect, got {type(session).__name__} of one. Give its "
            "sparkSession."
        )
    if session.is_stopped:
        raise ConnectError("The session of Spark Connect is stopped. Call connect() again.")
    for key, value in settings.items():
        session.conf.set(key, str(value))
    context_of_session(session)
    return session


def _opened(address: str, settings: Mapping[str, str]) -> Any:
    known = _active()
    if known is not None:
        context = context_of_session(known)
        if (context.host, context.port) != _place(address):
            raise ConnectError(
                f"Expected {shown(address)}, but a session is open to {context.master}. Adopt "
                "that one with connect(), or stop it first: spark.stop()."
            )
        return _adopted(known, settings)
    if _has_jvm():
        raise ConnectError(
            f"Expected {shown(address)}, but this process runs Spark already. Stop it first: "
            "spark.stop()."
        )
    _check_port(address)
    try:
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        check_protocol(address, DefaultChannelBuilder(address))
        builder: Any = SparkSession.builder.remote(address)
        for key, value in settings.items():
            builder = builder.config(key, str(value))
        session = builder.getOrCreate()
        # Nothing was sent before.
        context_of_session(session).setting("spark.master", "")
    except ImportError as error:
        raise ConnectError(
            f"This Python lacks what Spark Connect needs ({_first_line(error)}). Install this "
            "package's extra [connect], such as with pip install '.[connect]' in its clone, and "
            "restart the kernel."
        ) from None
    except TosError:
        raise
    except Exception as error:
        raise ConnectError(f"{shown(address)} opens no session: {_first_line(error)}") from None
    return session


def _place(address: str) -> tuple[str, int]:
    return address_of(shown(address).removeprefix(SCHEME))


def _check_port(address: str) -> None:
    if shown(address) == SCHEME:
        raise ConnectError(f"Expected an address such as sc://host:15002, got {SCHEME} alone.")
    try:
        with suppress(ConnectionResetError), socket.create_connection(_place(address), ANSWER):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise ClusterUnreachable(
            f"No answer from {shown(address)} ({error}). Check the address, and whether a Spark "
            "Connect server runs there (sbin/start-connect-server.sh) and its port is open from "
            "here."
        ) from None


def check_protocol(address: str, builder: Any) -> None:
    """See that a server speaks gRPC, which PySpark itself would wait for much longer.

    Parameters
    ----------
    address : str
    builder : pyspark.sql.connect.client.core.ChannelBuilder
        Opens the channel.

    Raises
    ------
    ClusterUnreachable
        It does not, within `ANSWER` seconds.
    """
    import grpc

    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(ANSWER)
        except grpc.FutureTimeoutError:
            raise ClusterUnreachable(
                f"No Spark Connect server answers at {shown(address)}, or it is busy for more than "
                f"{ANSWER:g} s. Check the port, which is 15002 by default, and "
                "whether the server uses TLS (/;use_ssl=true)."
            ) from None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
