"""How a session trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...codecs import Codec
from ...codecs.pair import CodecPair, as_codecs
from ...combiners import Combiner, as_combiner
from ...common.checks import RAISE_OR_SKIP, at_least_one
from ...errors import ConfigError
from ...steering.sync import SyncMode, as_sync
from ...strategies.base import NonFinite, Strategy
from ...strategies.registry import STRATEGIES, as_strategy
from ...worker.optimizer_state import POLICIES
from .option import as_given, in_range, option

AUTO = "auto"
"""A sync interval that is chosen by measurement."""


def interval_now(value: Any) -> int:
    """Return the sync interval of a run that trains, or refuse it and say why.

    Raises
    ------
    ConfigError
        It is no whole number of at least 1.
    """
    if value == AUTO:
        raise ConfigError(
            "sync_interval: expected a whole number of at least 1 while a run trains, got 'auto'. "
            "A run measures for that from its start on. Give sync_interval='auto' to the next one."
        )
    return at_least_one("sync_interval", value)


def _interval(name: str, value: Any) -> int | str:
    if isinstance(value, str) and value != AUTO:
        raise ConfigError(
            f"{name}: expected a whole number of at least 1, or {AUTO!r}; got {value!r}."
        )
    return AUTO if isinstance(value, str) else at_least_one(name, value)


def _sync(name: str, value: Any) -> SyncMode:
    if isinstance(value, str) and value.partition(":")[0].lower() in STRATEGIES:
        raise ConfigError(
            f"{name}: expected who waits for whom, such as 'bsp'; got {value!r}, which is a "
            f"strategy. Give strategy={value!r}."
        )
    return as_sync(value)


@dataclass(frozen=True, kw_only=True)
class SessionFields:
    """The options of a session, each by itself."""

    strategy: str | Strategy = option(
        "ps",
        "what workers exchange, and with whom; see tos.strategies",
        'What workers exchange, and with whom: ``"ps"``, or one of `tos_notebook.strategies`.',
        check=as_given(as_strategy),
        estimator=True,
    )
    combiner: Any = option(
        None,
        "how the server merges; by default dynsgd, with bsp fedavg",
        """
        The rule by which the server merges a push; ``"dynsgd"`` by default, with
        ``sync="bsp"`` ``"fedavg"``. Where workers average parameters among themselves, the rule by
        which those move, such as ``"diloco"``; by default they become the mean.
        """,
        takes="str, Combiner, class or function, optional",
        check=as_given(as_combiner),
        estimator=True,
    )
    sync_interval: int | str | None = option(
        None,
        "batches between two exchanges; by default 10 with ps, else 1; auto: by measurement",
        """
        Batches between two exchanges; by default the strategy's, 10 with ``"ps"``. ``"auto"``
        begins with that and measures how long batches and exchanges take. It then chooses the
        shortest interval with which exchanges take at most a tenth of a worker's time, and a note
        in `Run.status` says so. It is for strategies whose workers train by themselves between
        exchanges, and measures again after each change, three times at most.
        """,
        takes='int or "auto", optional',
        check=_interval,
        estimator=True,
    )
    sync: str | SyncMode | None = option(
        None,
        "which workers wait: asp, ssp:3 or bsp; by default asp with ps, else bsp",
        """
        How far a worker may be ahead of the slowest active one: ``"asp"`` for any distance,
        ``"ssp:3"`` for 3 milestones, ``"bsp"`` for none. Also written ``"async"``,
        ``"bounded:3"`` and ``"sync"``. A worker that has not started, has
        finished or has died makes no other wait.
        """,
        check=_sync,
        estimator=True,
    )
    codec: str | Codec | CodecPair = option(
        "fp32",
        "how updates and replies are encoded, such as int8",
        """
        How updates and replies are encoded, such as ``"int8"``; ``"topk:0.01+ef/int8"`` for updates
        and for replies. As they are by default.
        """,
        check=as_given(as_codecs),
        estimator=True,
        alias="compression",
    )
    batch_size: int = option(
        100,
        "rows of one batch of each worker",
        """
        Rows of one batch of each worker. `keras.fit` makes as many steps in an epoch where its
        batch size is this one times the number of workers.
        """,
        check=at_least_one,
        kept="in which its batches are counted",
        estimator=True,
    )
    non_finite: str = option(
        "raise",
        "what an update with NaN or infinity does: end the run, or be left out",
        check=RAISE_OR_SKIP,
    )
    optimizer_state: str = option(
        "keep",
        "what becomes of optimizer state (Adam's m and v) when a worker adopts parameters",
        """
        What becomes of a worker's optimizer state (momentum, Adam's m and v), which belongs to the
        parameters that it has trained, when it adopts the server's.

        ``"keep"``: it stays as it is, and costs nothing. It holds means over many steps, and soon
        also gradients of the new parameters: in `benchmarks/accuracy/optimizer_state.py` this is
        0.3 to 0.6 points more accurate than to reset it. It belongs to the Python process: with
        more partitions than Spark runs tasks at once, a process continues with that of the last
        partition that it trained.

        ``"reset"``: it returns to its values at the capture, and so does Adam's count of steps. A
        schedule of the learning rate continues. Some 50 us for each tensor. Use it after long sync
        intervals, when the server's parameters differ much from the worker's. It also lets a worker
        recover whose state has become NaN (`non_finite`). With short intervals momentum never
        builds up.
        """,
        check=POLICIES,
    )


@dataclass(frozen=True, kw_only=True)
class SessionOptions(SessionFields):
    """How a session trains; see `TrainingSession`."""

    @property
    def _chooses(self) -> bool:
        return False

    def checked(self) -> CheckedOptions:
        """Return them with strategy, combiner, sync mode and codec as objects.

        Raises
        ------
        ConfigError, CombinerError, CodecError
            One is out of range.
        """
        values = dict(in_range(SessionOptions, self))
        strategy: Strategy = values["strategy"]
        if values["sync"] is None:
            values["sync"] = strategy.default_sync
        values["chooses_interval"] = values["sync_interval"] == AUTO or self._chooses
        if values["sync_interval"] in (None, AUTO):
            values["sync_interval"] = at_least_one("sync_interval", strategy.sync_interval)
        if values["combiner"] is None:
            values["combiner"] = strategy.default_combiner(values["sync"])
        checked = CheckedOptions(**values)
        own = strategy.settings(checked.combiner, checked.codec)
        own.check(checked.sync, checked.sync_interval)
        if checked.chooses_interval and strategy.needs & {"gradients", "graph"}:
            raise ConfigError(
                f"sync_interval: expected a number with strategy {strategy.name!r}, whose workers "
                "make each step together; got 'auto'. Leave it out, or train with strategy='ps' or "
                "'allreduce:parameters'."
            )
        if strategy.needs & {"gradients", "graph"} and self.optimizer_state == "reset":
            raise ConfigError(
                "optimizer_state: expected 'keep', since one optimizer makes the steps of all "
                "workers; got 'reset'. Leave it out."
            )
        return checked


def for_one_run(asked: SessionOptions, wanted: Mapping[str, Any]) -> CheckedOptions:
    """Return the options of a session with others that count for one run.

    With another strategy, combiner, sync mode and sync interval are by default its own, and the
    codec is the session's where it fits.

    Parameters
    ----------
    asked : SessionOptions
        As the session was given them.
    wanted : mapping of str
        Those to take instead, by name.

    Raises
    ------
    ConfigError, CombinerError, CodecError
        One is out of range, or they do not go together.
    """
    own = replace(asked, **wanted)
    if "strategy" not in wanted or as_strategy(own.strategy) == as_strategy(asked.strategy):
        return own.checked()
    defaults: dict[str, Any] = {"combiner": None, "sync": None, "sync_interval": None}
    own = replace(own, **{n: v for n, v in defaults.items() if n not in wanted})
    try:
        return own.checked()
    except ConfigError:
        if "codec" in wanted:
            raise
        return replace(own, codec=SessionOptions.codec).checked()


@dataclass(frozen=True, kw_only=True)
class CheckedOptions(SessionOptions):
    """Options in range, and as a run uses them."""

    strategy: Strategy
    combiner: Combiner | None
    sync_interval: int
    sync: SyncMode
    codec: CodecPair
    non_finite: NonFinite
    chooses_interval: bool = False
    """Whether the sync interval is chosen by measurement, while it trains."""

    @property
    def _chooses(self) -> bool:
        return self.chooses_interval
