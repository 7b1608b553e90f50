"""`DeployedRun`: a run whose server is in a Spark task, from the caller's side."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...blocks.partitioners import AnyPartitioner
from ...blocks.skips import Skipped
from ...chaos.rules import Rule
from ...cluster.jobs import job_error
from ...cluster.remote.joining import INSTEAD
from ...common.arrays import Buffer
from ...errors import ConfigError, InvalidTransition, RemoteProtocolError, TosError, WaitTimeout
from ...events import Event, Stalled, WeightsMeasured
from ...layout import Layout
from ...steering.machine import Command
from ...steering.shards import ShardLoad
from ...steering.status import CheckpointStatus, Progress, RunStatus
from ...telemetry.bus import EventBus
from ...telemetry.history import History
from ..results.held_model import HeldModel
from ..results.settings import RunSettings
from ..run import Run
from .follower import Follower, joined

if TYPE_CHECKING:
    import pandas as pd

    from ...program.export.base import Program

STOP = 30.0
"""Seconds for the sinks to take the last events."""

PLAIN = (type(None), bool, int, float, str)
"""What a command is given; the rules of chaos are plain themselves."""

ELSEWHERE = (
    "{}: expected a run whose server is in this process, but that of run {} is in a Spark task. "
    f"{INSTEAD}"
)


class Center:
    """The parameters of a run whose server is elsewhere; see `coordination.exchange.Parameters`.

    Parameters
    ----------
    layout : Layout
    follower : Follower
    """

    torn: str | None = None

    def __init__(self, layout: Layout, follower: Follower) -> None:
        self.layout = layout
        self._follower = follower
        self._last: Buffer | None = None
        self.version = 0

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """See `Parameters.read`."""
        found = self._values()
        if out is None:
            return found, self.version
        out[:] = found
        return out, self.version

    def _values(self) -> Buffer:
        if self._last is None:
            try:
                content, self.version = self._follower.parameters()
            except InvalidTransition:
                # The run may have ended meanwhile, and has its last ones then.
                if self._last is None:
                    raise
            else:
                found = joined([content], self.layout.nbytes)
                if found is None:
                    raise RemoteProtocolError("Expected parameters, got none.")
                return found
        return self._last.copy()

    def load(self, buffer: Buffer) -> None:
        """See `Parameters.load`; only once the run has ended."""
        self._last = np.array(buffer)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a deployed run is made of here; see `RunParts`."""

    number: int
    sc: Any
    program: Program
    training: Training
    bus: EventBus
    history: History
    run_id: str
    name: str | None
    on_end: Callable[[], None]

    @property
    def state(self) -> str:
        """See `Run.state`."""
        return self.training.state


@dataclass(slots=True)
class Training:
    """What is known of the server; see `Coordinator`."""

    parameters: Center
    follower: Follower
    error: TosError | None = None

    @property
    def state(self) -> str:
        """See `Run.state`."""
        return "failed" if self.error else str(self.follower.facts["state"])


class Following:
    """Follows a run until its end; see `Lifecycle`.

    Parameters
    ----------
    parts : Parts
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.model = HeldModel(parts.program, parts.training.parameters)
        self.observers: Sequence[Any] = ()
        self.weights: list[WeightsMeasured] = []
        self._given = parts.bus.sinks
        self._published = 0
        self._done = threading.Event()

    def publish(self, event: Event) -> None:
        """Tell the sinks of an event of the run; of what it did before, not the user's own."""
        if isinstance(event, WeightsMeasured):
            self.weights.append(event)
        self._published += 1
        if self._published > int(self.parts.training.follower.facts["past"]):
            self.parts.bus.publish(event)
            return
        watching = [sink for sink in self.parts.bus.sinks if sink not in self._given]
        self.parts.history(event)
        for sink in watching:
            sink(event)

    def finish(self, last: list[bytes], error: TosError | None) -> None:
        """Keep the last parameters, and end."""
        training = self.parts.training
        training.error = error
        for step in (
            partial(self._keep, last),
            partial(self.parts.bus.close, STOP),
            self.parts.on_end,
        ):
            # Whatever goes wrong, the next ones are done, and wait() raises it.
            try:
                step()
            except Exception as failed:
                known = failed if isinstance(failed, TosError) else job_error(failed)
                training.error = training.error or known
        self._done.set()

    def _keep(self, last: list[bytes]) -> None:
        training = self.parts.training
        try:
            buffer = joined(last, training.parameters.layout.nbytes)
            if buffer is not None:
                training.parameters.load(buffer)
        finally:
            # One that holds the model waits for parameters: from now on they are here.
            training.follower.refuse_calls()
        if buffer is not None:
            self.model.keep(STOP)

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return not self._done.is_set()

    @property
    def workers(self) -> int:
        """How many workers train now."""
        return int(self.parts.training.follower.facts["workers"])

    @property
    def progress(self) -> Progress:
        """What is trained so far, by partition; of the milestones that have come."""
        return self.parts.history.progress(int(self.parts.training.follower.facts["partitions"]))

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for the end; return whether it came."""
        return self._done.wait(timeout)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end; see `Run.wait`."""
        parts = self.parts
        if not self.ended(timeout):
            raise WaitTimeout(
                f"Run {parts.run_id} is still {parts.state} after {timeout} s and continues. Wait "
                "longer, or stop() it."
            )
        saved: CheckpointStatus | None = parts.training.follower.facts["status"].checkpoint
        if saved is not None and saved.error:
            warnings.warn(f"Run {parts.run_id}: {saved}", RuntimeWarning, stacklevel=3)
        if parts.training.error is not None:
            raise parts.training.error


class DeployedRun(Run):
    """A run whose server is in a Spark task; what it takes and shows is that of `Run`."""

    lifecycle: Any
    parts: Any

    def __init__(self, parts: Parts) -> None:
        program = parts.program
        self.parts, self.lifecycle = parts, Following(parts)
        self.chaos_log = ()
        self.number, self.run_id, self.name = parts.number, parts.run_id, parts.name
        self.master = str(parts.sc.master)
        self.program, self.has_learning_rate = program, program.has_learning_rate
        self.own_rate = program.learning_rate
        self.uri, self.slots = self._facts["uri"], int(self._facts["slots"])

    @property
    def _facts(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self.parts.training.follower.facts
        return facts

    def _ask(self, method: str, **arguments: Any) -> Any:
        if not self.active:
            raise InvalidTransition(self.state, method, "the run has ended.")
        for name, value in arguments.items():
            if not isinstance(value, PLAIN) and method != Command.CHAOS:
                raise ConfigError(
                    f"{name}: expected a name or a number, because the run's server is in a Spark "
                    f"task; got {type(value).__name__}."
                )
        return self.parts.training.follower.call(method, **arguments)

    @property
    def commands(self) -> frozenset[Command]:
        """See `Run.commands`."""
        return frozenset(map(Command, self._facts["commands"]))

    @property
    def state(self) -> str:
        """See `Run.state`."""
        return str(self.parts.state)

    @property
    def status(self) -> RunStatus:
        """See `Run.status`; as of the latest poll."""
        found: RunStatus = replace(self._facts["status"], state=self.state)
        return found

    @property
    def stalls(self) -> tuple[Stalled, ...]:
        """See `Run.stalls`."""
        found: tuple[Stalled, ...] = self._facts["stalls"] if self.active else ()
        return found

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """See `Run.skipped`."""
        found: tuple[Skipped, ...] = self._facts["skipped"]
        return found

    @property
    def validates(self) -> bool:
        """See `Run.validates`."""
        return bool(self._facts["validates"])

    @property
    def settings(self) -> RunSettings:
        """See `Run.settings`; its combiner is a name."""
        found: RunSettings = self._facts["settings"]
        return found

    @property
    def shards(self) -> tuple[ShardLoad, ...]:
        """See `Run.shards`."""
        found: tuple[ShardLoad, ...] = self._facts["shards"] if self.active else ()
        return found

    @property
    def theory(self) -> pd.DataFrame:
        """Not known here."""
        raise ConfigError(ELSEWHERE.format("theory", self.run_id))

    @property
    def tensorboard(self) -> str | None:
        """It writes no event files."""
        return None

    @property
    def mlflow_run_id(self) -> str | None:
        """MLflow does not log it."""
        return None

    def report(self, path: Any) -> Any:
        """Not written here."""
        raise ConfigError(ELSEWHERE.format("report", self.run_id))

    def model_card(self, path: Any) -> str:
        """Not written here."""
        raise ConfigError(ELSEWHERE.format("model_card", self.run_id))

    def pause(self) -> None:
        """See `Run.pause`."""
        self._ask("pause")

    def unpause(self) -> None:
        """See `Run.unpause`."""
        self._ask("unpause")

    def stop(self, timeout: float = STOP, *, reason: str | None = None) -> Self:
        """See `Run.stop`."""
        if self.active:
            # It may be over, or about to be.
            with suppress(InvalidTransition):
                self._ask("stop", reason=reason)
            if not self.parts.bus.is_current_thread and not self.lifecycle.ended(timeout):
                raise WaitTimeout(f"Run {self.run_id} did not end within {timeout} s of stop().")
        return self

    def repartition(self, partitions: int, partitioner: AnyPartitioner | None = None) -> None:
        """See `Run.repartition`; without a partitioner."""
        self._ask("repartition", partitions=partitions, partitioner=partitioner)

    def swap_combiner(self, combiner: Any) -> None:
        """See `Run.swap_combiner`; by its name."""
        self._ask("swap_combiner", combiner=combiner)

    def swap_strategy(self, strategy: Any, **settings: Any) -> str:
        """See `Run.swap_strategy`; by its name."""
        return str(self._ask("swap_strategy", strategy=strategy, **settings))

    def set(self, **settings: Any) -> None:
        """See `Run.set`; settings are names and numbers."""
        self._ask("set", **settings)

    def chaos(self, *rules: Rule) -> None:
        """See `Run.chaos`."""
        self._ask("chaos", rules=rules)
        self.chaos_log += rules
