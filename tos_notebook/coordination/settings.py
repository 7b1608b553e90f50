"""Settings that may change while a run trains."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from ..chaos.rules import Rule
from ..steering.sync import ASP, SyncMode
from ..wire.settings import WorkerSettings


class StrategySettings(Protocol):
    """A strategy's own settings; a frozen dataclass."""

    @property
    def lockstep(self) -> bool:
        """Whether all workers make each step together; see `coordination.cohort`."""

    @property
    def continues(self) -> bool:
        """Whether they make steps without a partition that is lost, after a while."""

    @property
    def tree_depth(self) -> int | None:
        """Of the tree by which Spark adds up what tasks bring, in a job for each epoch.

        None where one job trains many epochs, whose workers exchange with the server or each other.
        """

    def check(self, sync: SyncMode, sync_interval: int) -> None:
        """Check that they go together.

        Parameters
        ----------
        sync : SyncMode
            How far a worker may be ahead of others.
        sync_interval : int
            Batches between two exchanges, which every strategy has.

        Raises
        ------
        ConfigError
            They do not.
        """

    def changed(self, **changes: Any) -> StrategySettings:
        """Return others.

        Parameters
        ----------
        **changes
            Settings by name, checked.

        Returns
        -------
        StrategySettings
            Another object; this one stays as it is.

        Raises
        ------
        ConfigError
            The strategy does not have one of them.
        """

    def require_saveable(self) -> None:
        """Raise CheckpointError if the state that belongs to them cannot be saved."""

    def for_worker(self) -> dict[str, str]:
        """Return what a worker must know of them.

        Returns
        -------
        dict of str to str
            `WorkerSettings.strategy`, which `Exchange.use` gets.
        """

    def shown(self) -> dict[str, Any]:
        """Return what a user reads of them.

        Returns
        -------
        dict of str
            By name; ``codec`` is text, ``combiner`` a Combiner.
        """


@dataclass(frozen=True, slots=True)
class Settings:
    """One version of the settings; a change makes another.

    Parameters
    ----------
    strategy : StrategySettings
        Those of the strategy.
    sync_interval : int
        Batches between two exchanges.
    sync : SyncMode
    learning_rate : float or None
        None for the program's own.
    chaos : tuple of Rule
        What is to go wrong. A worker is told only of its own next milestone.

    Raises
    ------
    ConfigError
        They do not go together.
    """

    strategy: Any
    sync_interval: int
    sync: SyncMode = ASP
    learning_rate: float | None = None
    chaos: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        self.strategy.check(self.sync, self.sync_interval)

    def changed(self, **changes: Any) -> Settings:
        """Return others; a name that is none of these is one of the strategy's.

        Raises
        ------
        ConfigError
            They do not go together.
        """
        own = {field.name for field in fields(self)}
        rest = {name: value for name, value in changes.items() if name not in own}
        mine = {name: value for name, value in changes.items() if name in own}
        strategy = mine.get("strategy", self.strategy)
        return replace(self, **mine | {"strategy": strategy.changed(**rest) if rest else strategy})

    def for_worker(self) -> WorkerSettings:
        """Return what a worker must know."""
        own = self.strategy.for_worker()
        # Only a worker that nothing bounds may choose when it reports.
        bound = {} if self.sync == ASP else {"sync": str(self.sync)}
        return WorkerSettings(self.sync_interval, self.learning_rate, own | bound)
