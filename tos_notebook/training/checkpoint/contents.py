"""What a checkpoint holds, as the parts of a sealed file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...blocks.partitioners import PARTITIONERS, AnyPartitioner
from ...combiners.base import Combiner
from ...common.arrays import Array
from ...common.checks import at_least_one
from ...coordination.job_span import DataLayout
from ...coordination.ledger import Ledger
from ...coordination.settings import Settings
from ...coordination.snapshots import Asked, Progress, RunPosition, Snapshot
from ...errors import CheckpointError, ConfigError, TosError
from ...persist.described import describe, rebuild
from ...persist.parts import SavedPart
from ...persist.sealed import Sealed
from ...persist.values import require_plain
from ...steering.sync import as_sync
from ...strategies.base import Strategy
from ...strategies.registry import STRATEGIES
from ..options import OPTIONS, RunOptions, SessionOptions, options_of

SESSION = tuple(
    name
    for name in options_of(SessionOptions)
    if name not in ("strategy", "combiner", "sync_interval", "sync", "codec")
)
"""Options of a session that are saved as such; the others are, as the settings in force."""

RUN = tuple(name for name in options_of(RunOptions) if name not in ("partitions", "partitioner"))
"""Options of a run that are saved; the others have made the first layout, which is."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run was asked to do, and over what: the same in all of its checkpoints.

    Parameters
    ----------
    run_id : str
    session : SessionOptions
        Without what the settings in force say.
    options : RunOptions
        What the run continues with when it is resumed.
    strategy : mapping
        Its name and parameters, as `persist.described` has them.
    partitions : int
        Of the data's first layout.
    columns : sequence of (str, sequence of int)
        dtype and shape of each column of the data.
    rows : int or None
        Of the data, where that was known.
    stored : bool
        Whether the data are in the folder, too; else they have to be given again.
    program : str
        Digest of the program's archive.
    created : float
        Seconds since 1970.
    came_in : int or None
        Partitions that the rows came in, which were then dealt into the first layout's; None where
        that is how they came.
    content : str
        Digest of the arrays that are stored; empty without.
    stream : bool
        Whether the data are a function of datasets, which makes the rows of each epoch.
    rate : float or None
        The program's own learning rate, where that is a known number.
    """

    run_id: str
    session: SessionOptions
    options: RunOptions
    strategy: Any
    partitions: int
    columns: tuple[tuple[str, tuple[int, ...]], ...]
    rows: int | None
    stored: bool
    program: str
    created: float
    came_in: int | None = None
    content: str = ""
    stream: bool = False
    rate: float | None = None

    @property
    def asked(self) -> Mapping[str, Any]:
        """The options that are saved, by name, as plain values."""
        kept = {n: getattr(self.session, n) for n in SESSION}
        kept |= {n: getattr(self.options, n) for n in RUN}
        return {
            **kept,
            "shuffle": bool(self.options.shuffle),
            "checkpoint_every": str(self.options.every),
        }

    def to_json(self) -> Mapping[str, Any]:
        """Return it as JSON, the options among the rest; `from_json` undoes it."""
        names = [f.name for f in fields(self) if f.name not in ("session", "options")]
        return {**{name: getattr(self, name) for name in names}, **self.asked}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin:
        """Return what `to_json` was called of.

        Raises
        ------
        TypeError, ValueError, LookupError, ConfigError
            It is something else.
        """
        told = dict(value)
        session, run = (
            {n: OPTIONS[n].checked(told.pop(n)) for n in names if n in told}
            for names in (SESSION, RUN)
        )
        require_plain(cls, told)
        told["columns"] = tuple((dtype, tuple(shape)) for dtype, shape in told["columns"])
        return cls(session=SessionOptions(**session), options=RunOptions(**run), **told)


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """The settings in force, as plain values; chaos is not for a run that continues."""

    strategy: Mapping[str, Any]
    """The strategy's own, by which it makes them again."""
    shown: Mapping[str, str]
    """The same, as a user reads them."""
    sync_interval: int
    sync: str
    learning_rate: float | None


@dataclass(frozen=True, slots=True)
class KeptSwap:
    """A swap of the strategy that is still to be made, as plain values."""

    strategy: Any
    """As `Origin.strategy`."""
    settings: Mapping[str, Any]
    """The strategy's own."""
    sync: str
    sync_interval: int
    detail: str
    """In words."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run as of one center version.

    Parameters
    ----------
    origin : Origin
    progress : Progress
    settings : KeptSettings
    asked : tuple of int and Partitioner, or None
        A repartition that is still to be done.
    history : tuple of str
        Names of the files of the events so far, in their order.
    swap : KeptSwap, optional
    gone_by : KeptSettings, optional
        Where the run was over: the settings that were in force, and not only asked for.
    """

    origin: Origin
    progress: Progress
    settings: KeptSettings
    asked: Asked | None = None
    history: tuple[str, ...] = field(default=())
    swap: KeptSwap | None = None
    gone_by: KeptSettings | None = None

    def settings_with(self, combiner: Combiner | None = None) -> Settings:
        """Return the settings in force.

        Parameters
        ----------
        combiner : Combiner, optional
            The one that was in force, where a checkpoint cannot name it: a user's own.

        Raises
        ------
        CheckpointError
            It is needed, and was not given.
        """
        saved = self.settings
        try:
            return Settings(
                self.strategy.settings_from_json(saved.strategy, combiner),
                at_least_one("sync_interval", saved.sync_interval),
                as_sync(saved.sync),
                saved.learning_rate,
            )
        except (KeyError, ConfigError) as error:
            raise CheckpointError(f"The saved settings do not go together: {error}") from None

    @property
    def strategy(self) -> Strategy:
        """How the run trains."""
        strategy: Strategy = rebuild(self.origin.strategy, STRATEGIES)
        return strategy

    @property
    def own_combiner(self) -> str | None:
        """The name of the user's own combiner, which a checkpoint cannot name; None if none is."""
        return self.strategy.own_combiner(self.settings.strategy)


def _kept(strategy: Strategy, settings: Settings) -> KeptSettings:
    return KeptSettings(
        strategy.settings_to_json(settings.strategy),
        {n: getattr(v, "name", str(v)) for n, v in settings.strategy.shown().items()},
        settings.sync_interval,
        str(settings.sync),
        settings.learning_rate,
    )


def _kept_swap(swap: Any) -> KeptSwap:
    strategy: Strategy = swap.method.strategy
    changes = swap.changes
    return KeptSwap(
        describe(strategy, STRATEGIES),
        strategy.settings_to_json(changes["strategy"]),
        str(changes["sync"]),
        changes["sync_interval"],
        swap.detail,
    )


def require_known(partitioner: AnyPartitioner) -> None:
    """Refuse a partitioner that a checkpoint could not name.

    Raises
    ------
    ConfigError
        It is none of `tos_notebook.partitioners`.
    """
    if describe(partitioner, PARTITIONERS) is None:
        raise ConfigError(
            f"{partitioner!r}: a run with checkpoints needs a partitioner that it can lay the data "
            f"out by again: one of {', '.join(PARTITIONERS)}. For your own, lay the RDD out "
            "before the run."
        )


def to_parts(
    origin: Origin,
    snapshot: Snapshot,
    asked: Asked | None,
    history: tuple[str, ...],
    parts: Sequence[SavedPart] = (),
) -> tuple[dict[str, Any], list[Array]]:
    """Return a checkpoint's JSON value and its arrays; `from_sealed` undoes it.

    Where others have written `parts` of it, these are named only.
    """
    progress = snapshot.progress
    reached = progress.reached
    strategy: Strategy = rebuild(origin.strategy, STRATEGIES)
    trained, arrays = strategy.to_parts(progress.copied)
    value = {
        "origin": origin.to_json(),
        "ledger": progress.ledger,
        "trained": trained,
        "samples": list(progress.samples.items()),
        "rows": list(progress.rows.items()),
        "reached": [
            reached.epoch,
            reached.between,
            _layout(reached.layout),
            _layout(reached.earlier),
        ],
        "settings": asdict(_kept(strategy, snapshot.settings)),
        "asked": None if asked is None else [asked[0], describe(asked[1], PARTITIONERS)],
        "history": history,
        "swap": None if snapshot.swap is None else asdict(_kept_swap(snapshot.swap)),
    }
    if snapshot.gone_by not in (None, snapshot.settings):
        value["gone_by"] = asdict(_kept(strategy, snapshot.gone_by))
    if parts:
        value["parts"] = [list(part) for part in parts]
    return value, arrays


def _layout(layout: DataLayout | None) -> Any:
    if layout is None:
        return None
    return [layout.partitions, describe(layout.partitioner, PARTITIONERS), layout.epoch]


def from_sealed(sealed: Sealed, name: str) -> Checkpoint:
    """Return what a checkpoint file holds.

    Parameters
    ----------
    sealed : Sealed
    name : str
        The file's, for messages.

    Raises
    ------
    CheckpointError
        It is another kind of file.

    The parts of one that names some are in it: see `persist.parts.joined`.
    """
    try:
        return _from_value(sealed.value, sealed.arrays)
    except (TypeError, ValueError, LookupError, AttributeError, TosError) as error:
        raise CheckpointError(f"{name} is sealed, but no checkpoint: {error}.") from None


def _from_value(value: dict[str, Any], arrays: list[Array]) -> Checkpoint:
    origin = Origin.from_json(value["origin"])
    strategy: Strategy = rebuild(origin.strategy, STRATEGIES)
    trained = value["trained"]
    if "parts" in value:
        trained = {**trained, "parts": value["parts"]}
    copied = strategy.from_parts(trained, arrays)
    settings = KeptSettings(**value["settings"])
    require_plain(KeptSettings, value["settings"])
    if not isinstance(settings.shown, dict):
        raise TypeError(f"expected settings by name, got {settings.shown!r}")
    strategy.own_combiner(settings.strategy)
    # Looked at here, where a wrong one is told as what it is.
    Ledger.from_json(value["ledger"])
    epoch, between, *layouts = value["reached"]
    require_plain(RunPosition, {"epoch": epoch, "between": between})
    layout, earlier = map(_data_layout, layouts)
    progress = Progress(
        value["ledger"],
        copied,
        dict(map(tuple, value["samples"])),
        dict(map(tuple, value["rows"])),
        RunPosition(epoch, between, layout, earlier),
    )
    asked = value["asked"]
    return Checkpoint(
        origin,
        progress,
        settings,
        None if asked is None else (asked[0], rebuild(asked[1], PARTITIONERS)),
        tuple(value["history"]),
        _swap(value.get("swap")),
        _gone_by(value.get("gone_by")),
    )


def _gone_by(value: Any) -> KeptSettings | None:
    if value is None:
        return None
    require_plain(KeptSettings, value)
    return KeptSettings(**value)


def _swap(value: Any) -> KeptSwap | None:
    if value is None:
        return None
    require_plain(KeptSwap, value)
    rebuild(value["strategy"], STRATEGIES)
    return KeptSwap(**value)


def _data_layout(layout: Any) -> DataLayout | None:
    if layout is None:
        return None
    partitions, partitioner, epoch = layout
    require_plain(DataLayout, {"partitions": partitions, "epoch": epoch})
    return DataLayout(partitions, rebuild(partitioner, PARTITIONERS), epoch)
