"""Between-graph replication as a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...codecs.pair import CodecPair
from ...combiners.base import Combiner
from ...common.arrays import Array
from ...common.checks import at_least_one, with_known_parameters
from ...errors import ConfigError
from ...nodes.servers import EXPOSED, stays_here
from ...steering.machine import Command
from ...steering.sync import ASP, BSP, SyncMode
from ...worker.exchange import ExchangeMaker
from ..base import TrainerSetup
from .exchange import exchange
from .settings import SessionSettings, check_codec
from .together import LockstepTrainer
from .trainer import Copied, SessionTrainer

SYNC = "sync"
"""The variant whose workers make each step together."""


@with_known_parameters
@dataclass(frozen=True, slots=True)
class TensorFlowCluster:
    """Between-graph replication of a captured TF1 graph, by TensorFlow's own servers.

    Servers on the driver's machine, the job ``ps``, have the variables, the optimizer's among them.
    Each worker's session runs the program's own train operation on its batches, and reads and
    changes the variables at each step. Workers wait for no other. After `sync_interval` batches
    they tell the driver what they have trained, without parameters.

    With `sync`, workers leave the gradients of a batch on the servers, in TensorFlow's
    conditional accumulators. When all have, the driver's session lets the program's own optimizer
    make one step by their mean, weighted by rows. So n workers with batches of b rows train as one
    process with batches of n * b.

    A checkpoint waits until no worker is in the middle of a milestone, so it has exactly what
    counts. What a worker that dies has trained since its last milestone stays in the
    variables, does not count, and is trained again; with `sync` nothing stays.

    Parameters
    ----------
    ps : int
        Servers, on which the variables take turns; from 1.
    sync : bool
        Whether all workers make each step together.
    insecure_network : bool
        Whether the servers may be reached from other hosts. TensorFlow's own protocol has neither
        encryption nor authentication.

    Raises
    ------
    ConfigError
        One is out of range.
    """

    ps: int = 1
    sync: bool = False
    insecure_network: bool = False
    name = "tensorflow"
    summary = "TF1 graphs: each worker's session works on variables of TensorFlow's own servers."
    when = "To compare with TensorFlow's between-graph replication, and to teach it."
    commands = frozenset(Command) - {Command.SWAP_COMBINER, Command.SWAP_STRATEGY}
    sampling = None
    tasks = 0
    variants = (SYNC,)
    """What `parse` takes."""

    def __post_init__(self) -> None:
        at_least_one("ps", self.ps)
        for name in ("sync", "insecure_network"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name}: expected True or False, got {getattr(self, name)!r}.")

    @classmethod
    def parse(cls, text: str) -> TensorFlowCluster:
        """Return one for what follows a colon after its name: ``"sync"``.

        Raises
        ------
        ConfigError
            It is something else.
        """
        if text != SYNC:
            raise ConfigError(
                f"strategy: expected 'tensorflow' or 'tensorflow:sync', got {text!r}."
            )
        return cls(sync=True)

    @property
    def default_sync(self) -> SyncMode:
        """See `Strategy.default_sync`."""
        return BSP if self.sync else ASP

    @property
    def sync_interval(self) -> int:
        """See `Strategy.sync_interval`."""
        return 1 if self.sync else 10

    @property
    def needs(self) -> frozenset[str]:
        """See `Strategy.needs`."""
        return frozenset({"graph", "gradients"} if self.sync else {"graph"})

    @property
    def exchange(self) -> ExchangeMaker:
        """See `Strategy.exchange`."""
        return exchange

    def trainer(self, setup: TrainerSetup) -> SessionTrainer:
        """See `Strategy.trainer`.

        Raises
        ------
        ConfigError
            Its servers would be open to a network, or an update cannot be left out.
        """
        if not self.insecure_network and not stays_here(setup.host):
            raise ConfigError(
                f"{EXPOSED} Expected executors on this host, got a driver that they reach at "
                f"{setup.host!r}. Set TensorFlowCluster(insecure_network=True) if only you reach "
                "that network."
            )
        if setup.non_finite == "skip":
            raise ConfigError(
                "non_finite: expected 'raise' with strategy 'tensorflow', whose steps are made "
                "before anyone can look at them; got 'skip'. Leave it out, or train with "
                "strategy='ps'."
            )
        kind = LockstepTrainer if self.sync else SessionTrainer
        return kind(setup, self.ps)

    def sweep(self, folder: Path, run_id: str) -> None:
        """See `Strategy.sweep`: workers leave nothing."""

    def default_combiner(self, sync: SyncMode) -> None:
        """See `Strategy.default_combiner`: it has none."""
        return

    def settings(self, combiner: Combiner | None, codec: CodecPair) -> SessionSettings:
        """See `Strategy.settings`."""
        if combiner is not None:
            raise ConfigError(
                f"combiner: expected none with strategy 'tensorflow', whose graph makes the steps; "
                f"got {combiner.name}. Leave it out, or train with strategy='ps'."
            )
        check_codec(codec)
        return self.exact_settings()

    def exact_settings(self) -> SessionSettings:
        """See `Strategy.exact_settings`."""
        return SessionSettings(self.sync)

    def settings_to_json(self, settings: SessionSettings) -> dict[str, Any]:
        """See `Strategy.settings_to_json`."""
        return asdict(settings)

    def settings_from_json(
        self, value: Mapping[str, Any], combiner: Combiner | None = None
    ) -> SessionSettings:
        """See `Strategy.settings_from_json`."""
        return SessionSettings(**value)

    def own_combiner(self, value: Mapping[str, Any]) -> None:
        """See `Strategy.own_combiner`."""
        return

    def to_parts(self, copied: Copied) -> tuple[dict[str, Any], list[Array]]:
        """See `Strategy.to_parts`."""
        return {"version": copied.version}, copied.values

    def from_parts(self, value: dict[str, Any], arrays: list[Array]) -> Copied:
        """See `Strategy.from_parts`."""
        return Copied(arrays, int(value["version"]))
