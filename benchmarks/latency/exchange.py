"""Exchanges with the real server against a bare TCP echo of the same bytes.

Two client processes join and push over TCP, as workers on other hosts do. The server keeps ledger,
settings and telemetry, merges the update and sends the center. The echo sends back what it got.

    python -m benchmarks.latency.exchange [--quick]
"""

from __future__ import annotations

import multiprocessing
import os
from contextlib import closing, contextmanager
from typing import Any

from tos_notebook.transport.auth import Secret
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.wire.messages import Join, Joined, Poll, Proceed, Push, Reply

from ..lib.exchange_bare import CLIENTS, SIZES, buffers, compare
from ..lib.harness import Row, program
from ..lib.serving import RUN, serving

SECRET = Secret(b"only for this benchmark, loopback")
GOALS = {"31 kB": 0.25, "4 MB": 0.8, "100 MB": 0.8}
EXCHANGES_GOAL = 8000


class RealServer:
    """Our server and its client, as a side of `exchange_bare.compare`."""

    @contextmanager
    def serve(self, nbytes: int) -> Any:
        with serving(nbytes, CLIENTS, SECRET) as (server, *_):
            yield server.address.port

    @contextmanager
    def connect(self, nbytes: int, port: int) -> Any:
        update, parameters = buffers(nbytes)
        with closing(connect_tcp("127.0.0.1", port, SECRET)) as connection:
            # No segment: a worker on another host has none to share.
            pid, number = os.getpid(), _partition()
            join = Join(RUN, number, 0, pid, "127.0.0.1", pid, segment="", metrics=["accuracy"])
            joined, _ = connection.request(join, None, parameters)
            assert isinstance(joined, Joined)
            proceed, _ = connection.request(Poll(joined.settings_version), None, parameters)
            assert isinstance(proceed, Proceed)
            assert proceed.version is not None
            sequence, version = 0, proceed.version

            def exchange() -> None:
                nonlocal sequence, version
                used = 0.01, 0.0, 1e-4, 0.9, 400_000
                push = Push(0, sequence, 10, 1000, version, 0, True, 0.25, *used, (0.9,))
                reply, _ = connection.request(push, update, parameters)
                assert isinstance(reply, Reply)
                sequence, version = sequence + 1, reply.version

            yield exchange


def _partition() -> int:
    """Return another number in each client: they start in turn, and are numbered so."""
    return int(multiprocessing.current_process().name.rpartition("-")[2]) % CLIENTS


def run(quick: bool) -> list[Row]:
    """Compare at each size, in turns."""
    seconds, rounds = (0.5, 3) if quick else (2.0, 5)
    rows = []
    for name, nbytes in SIZES.items():
        bare, ours, ratio = compare(RealServer(), nbytes, seconds, rounds)
        parts = {
            side: f"{count:,.0f} exchanges/s, {count * 2 * nbytes / 1e9:.2f} GB/s"
            for side, count in (("ours", ours), ("bare", bare))
        }
        what = f"exchange of {name}: ours / bare"
        rows.append(Row(what, ratio, "x", f">= {GOALS[name]}", parts, rounds))
        if nbytes == min(SIZES.values()):
            rows.append(
                Row(f"exchanges of {name}", ours, "1/s", f"> {EXCHANGES_GOAL}", runs=rounds)
            )
    return rows


if __name__ == "__main__":
    program(run, __doc__)
