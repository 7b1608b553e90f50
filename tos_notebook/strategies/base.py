"""What a strategy is: how what workers learn is combined.

A strategy has two sides. In the driver a `Trainer` holds the parameters of one run and serves its
workers' exchanges; in each worker an `Exchange` brings the parameters to train and takes what was
trained. The control plane (`coordination`) counts batches, steers and watches for both. It knows
no parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ..archive.runner import Updater
from ..blocks.sampling import Sampler
from ..codecs.pair import CodecPair
from ..combiners.base import Combiner
from ..common.arrays import Array, Buffer
from ..coordination.exchange import Trainer
from ..coordination.services import Services
from ..coordination.settings import Settings, StrategySettings
from ..errors import LocalProtocolError
from ..layout import Layout
from ..steering.machine import Command
from ..steering.sync import SyncMode
from ..worker.beside import SideTask
from ..worker.exchange import ExchangeMaker

NonFinite = Literal["raise", "skip"]
"""A non-finite update ends the run, or is left out."""


def without_optimizer() -> Updater:
    """Raise: the program was not exported for gradients."""
    raise LocalProtocolError("Expected a program that was exported for gradients, got none.")


def without_program() -> Path:
    """Raise: there is no program to load in the driver."""
    raise LocalProtocolError("Expected the archive of the program, got none.")


class Beside(Protocol):
    """Starts tasks in the cluster beside a run's workers."""

    @property
    def services(self) -> Services:
        """Know what serves them when they call the driver."""

    def start(self, task: SideTask, count: int) -> Future[None]:
        """Run a task so many times at once, each with a number from 0.

        Parameters
        ----------
        task : callable
        count : int

        Returns
        -------
        Future
            Done when all have ended; its exception is a TosError.
        """

    def cancel(self) -> None:
        """End all of them."""


def without_cluster() -> Beside:
    """Raise: nothing can be started beside the workers."""
    raise LocalProtocolError("Expected a cluster to start tasks in, got none.")


@dataclass(frozen=True, slots=True)
class TrainerSetup:
    """What the driver's side of one run is made from.

    Parameters
    ----------
    layout : Layout
        The parameters' names, shapes and dtypes, and their places in a buffer.
    initial : ndarray, shape (layout.nbytes,), uint8
        The first parameters; a trainer copies them.
    settings : Settings
        Those that the run begins with.
    non_finite : {"raise", "skip"}
        If an update has NaN or infinity: end the run, or skip the update.
    updater : callable
        Loads the program's optimizer in this process, for strategies that need gradients.
    archive : callable
        Returns the program as it was exported, for strategies that need a graph.
    host : str
        Where executors reach this process.
    beside : callable
        Returns what starts tasks in the cluster, for strategies that need some.
    rows : object, optional
        Rows of served tables that were trained before, as `HandedOver.rows` has them.
    """

    layout: Layout
    initial: Buffer
    settings: Settings
    non_finite: NonFinite = "raise"
    updater: Callable[[], Updater] = without_optimizer
    archive: Callable[[], Path] = without_program
    host: str = "127.0.0.1"
    beside: Callable[[], Beside] = without_cluster
    rows: Any = None


class Strategy(Protocol):
    """How runs are trained; immutable, and good for any number of runs.

    Its parameters are attributes of the same names, so that a checkpoint can name it.
    """

    name: str
    """By which users choose it."""
    summary: str
    """A line on what workers exchange, and with whom."""
    when: str
    """A line on when to choose it."""
    commands: frozenset[Command]
    """What its runs obey: pause, unpause and stop, and those others that a run does not refuse."""

    @property
    def tasks(self) -> int:
        """The number of Spark tasks that run in addition to the workers, and take slots."""

    @property
    def default_sync(self) -> SyncMode:
        """How far a worker may be ahead of others, where the user does not say."""

    @property
    def sync_interval(self) -> int:
        """Batches between two exchanges, where the user does not say."""

    @property
    def needs(self) -> frozenset[str]:
        """What it needs of a program.

        ``"gradients"``: workers compute them, and the optimizer makes its step elsewhere.
        ``"no optimizer"``: it makes none, so that it must not have scaled the loss either.
        ``"graph"``: sessions run the operations of a TF1-style graph.
        """

    @property
    def sampling(self) -> Sampler | None:
        """Draws the rows of each epoch, by which all make one step; None for all, in batches."""

    @property
    def exchange(self) -> ExchangeMaker:
        """What makes the worker's side. Picklable: Spark takes it to the executors."""

    def trainer(self, setup: TrainerSetup) -> Trainer:
        """Return the driver's side of one run.

        Parameters
        ----------
        setup : TrainerSetup

        Returns
        -------
        Trainer
            It serves no worker before `Trainer.begin`.
        """

    def sweep(self, folder: Path, run_id: str) -> None:
        """Delete what workers of a run have left on this host.

        Parameters
        ----------
        folder : Path
            This host's folder for executors.
        run_id : str
        """

    def default_combiner(self, sync: SyncMode) -> Combiner | None:
        """Return the combiner where the user names none.

        Parameters
        ----------
        sync : SyncMode

        Returns
        -------
        Combiner or None
            None if the strategy has none.
        """

    def settings(self, combiner: Combiner | None, codec: CodecPair) -> StrategySettings:
        """Return the strategy's own settings.

        Parameters
        ----------
        combiner : Combiner or None
            None where `default_combiner` returns None, and the user has named none.
        codec : CodecPair

        Returns
        -------
        StrategySettings
            What `Settings.strategy` is when the run begins.

        Raises
        ------
        ConfigError
            The strategy cannot train with one; the message says which strategy can.
        """

    def exact_settings(self) -> StrategySettings:
        """Return its own settings with which changes add up and nothing is left out.

        Returns
        -------
        StrategySettings
            For tests, which compare what was trained with what was sent.
        """

    def settings_to_json(self, settings: Any) -> dict[str, Any]:
        """Return the strategy's own settings as plain values.

        Parameters
        ----------
        settings : StrategySettings
            ``Settings.strategy``.

        Returns
        -------
        dict of str
            Numbers, text, None, and lists and dicts of them.
        """

    def settings_from_json(
        self, value: Mapping[str, Any], combiner: Combiner | None = None
    ) -> StrategySettings:
        """Return the settings of which `settings_to_json` made plain values.

        Parameters
        ----------
        value : mapping of str
            What `settings_to_json` returned.
        combiner : Combiner, optional
            A user's own, which plain values cannot name.

        Returns
        -------
        StrategySettings
            Equal to those before.

        Raises
        ------
        CheckpointError
            They do not go together, or one is the user's own and was not given.
        """

    def own_combiner(self, value: Mapping[str, Any]) -> str | None:
        """Return the name of a user's own combiner, which `settings_from_json` needs.

        Parameters
        ----------
        value : mapping of str
            What `settings_to_json` returned.

        Returns
        -------
        str or None
            None if the plain values hold all.
        """

    def to_parts(self, copied: Any) -> tuple[dict[str, Any], list[Array]]:
        """Return a snapshot as values that can be saved.

        Parameters
        ----------
        copied : object
            What `Trainer.snapshot` returned; or a `CopyApart` that was written in parts, whose
            content is not returned.

        Returns
        -------
        value : dict of str
            Plain values, as JSON has them.
        arrays : list of ndarray
            The rest, of any shape and dtype.
        """

    def from_parts(self, value: dict[str, Any], arrays: list[Array]) -> Any:
        """Return a snapshot that was saved.

        Parameters
        ----------
        value : dict of str
        arrays : list of ndarray
            What `to_parts` returned, as read from a file. Where the copy was written in parts,
            ``value["parts"]`` has the JSON of each, and how many of the arrays are its own.

        Returns
        -------
        object
            What `Trainer.restore` takes.

        Raises
        ------
        TypeError, ValueError, LookupError
            The value is something else.
        """
