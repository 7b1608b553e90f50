"""Spark tasks beside a run's workers, in a job of their own."""

from __future__ import annotations

import secrets
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..cluster.executors import worker_ports
from ..cluster.jobs import cancel, in_pool, job_error, run_job
from ..common.threads import in_thread
from ..coordination.server import RunServer
from ..coordination.services import Services
from ..errors import TosError
from ..transport.auth import Secret
from ..transport.base import Endpoint
from ..worker.beside import SideCall, SideTask


@dataclass
class SparkTasks:
    """See `Beside`.

    Parameters
    ----------
    sc : SparkContext
    host : str
        Where executors reach the server.
    secret : Secret
    server : RunServer
    run_id : str
    pool : str or None
        Spark's scheduling pool of the run.
    """

    sc: Any
    host: str
    secret: Secret
    server: RunServer
    run_id: str
    pool: str | None
    _group: str = ""

    @property
    def services(self) -> Services:
        """See `Beside.services`."""
        return self.server.services

    def start(self, task: SideTask, count: int) -> Future[None]:
        """See `Beside.start`."""
        # No group may be used again after it was canceled.
        self._group = f"{self.run_id}-beside-{secrets.token_hex(3)}"
        call = SideCall(
            self.host,
            self.server.address.port,
            self.secret,
            self.server.fingerprint,
            task,
            Endpoint("", *worker_ports(self.sc)),
        )
        run = partial(self._run, call, count, self._group)
        return in_thread(f"tos-beside-{self.run_id}", partial(in_pool, self.sc, self.pool, run))

    def _run(self, call: SideCall, count: int, group: str) -> None:
        numbers = partial(self.sc.parallelize, range(count), count)
        try:
            run_job(self.sc, numbers, call, group, f"{self.run_id}: {count} shards of parameters")
        except Exception as error:
            raise error if isinstance(error, TosError) else job_error(error) from None

    def cancel(self) -> None:
        """See `Beside.cancel`."""
        cancel(self.sc, self._group)
