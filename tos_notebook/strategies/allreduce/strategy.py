"""All-reduce as a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...codecs.pair import PLAIN, CodecPair, as_codecs
from ...combiners.base import Combiner
from ...combiners.registry import MADE
from ...common.checks import at_least_one, did_you_mean, one_of, with_known_parameters
from ...errors import ConfigError
from ...persist.described import describe, rebuild
from ...worker.exchange import ExchangeMaker
from ..base import TrainerSetup
from ..ps.exchange import exchange
from .lockstep import Lockstep
from .mesh_exchange import MeshExchangeMaker
from .mesh_trainer import MeshTrainer
from .settings import ReduceSettings
from .trainer import ReduceTrainer

OF = ("gradients", "parameters")
"""What workers can average."""

ALGORITHMS = ("auto", "ring", "direct", "halving", "two_level", "star")
"""Ways between the workers."""

LOSSES = ("wait", "continue")
"""What becomes of a partition that is lost."""


@with_known_parameters
@dataclass(frozen=True, slots=True)
class AllReduce(Lockstep):
    """All workers make each step together, by the mean of what they bring, weighted by rows.

    With gradients, n workers with batches of b rows train exactly as one process does with
    batches of n * b rows: synchronous SGD, with any optimizer. Only what looks at a whole batch
    differs, such as BatchNormalization: each worker normalizes by its own.

    With parameters, each worker makes `every` own steps between two means. This is local SGD, or
    model averaging (Stich 2019, "Local SGD Converges Fast and Communicates Little", ICLR; Povey et
    al. 2014, arXiv:1410.7455). A session's `combiner` is the outer optimizer then: it takes the
    workers' mean change, as in DiLoCo (Douillard et al. 2023, arXiv:2311.08105) or SlowMo (Wang
    et al. 2020, arXiv:1910.00643).

    Parameters
    ----------
    of : {"gradients", "parameters"}
        What they average.
    every : int
        Batches between two exchanges, where a session does not say otherwise. Gradients of
        several batches are averaged, as those of one larger batch.
    algorithm : {"auto", "ring", "direct", "halving", "two_level", "star"}
        The way between the workers; see `tos_notebook.reduction.schedules`. ``"star"``: through
        the driver, which adds up, and makes the optimizer's step. All others: workers connect to
        each other, and the driver only counts. ``"auto"`` measures their links, and takes the
        fastest of those, or ``"direct"`` with a codec that needs it. Where workers cannot reach
        each other, it continues as ``"star"``.
    on_loss : {"wait", "continue"}
        What becomes of a partition that is lost, and for which Spark has no slot. The others wait
        for it for `worker_timeout` seconds, and the run fails. Or they wait for `stall_timeout`
        seconds in the first epoch of the loss, and continue: the rows that it does not train are
        lost. It trains again from the next epoch on, once Spark has a slot for it.

    Raises
    ------
    ConfigError
        One of them is something else.
    """

    of: str = "gradients"
    every: int = 1
    algorithm: str = "auto"
    on_loss: str = "wait"
    name = "allreduce"
    summary = "All workers make each step together, by the mean of their gradients or parameters."
    when = "Exact synchronous SGD, the same result for any number of workers; workers of one speed."
    sampling = None
    variants = (*OF, *ALGORITHMS[1:])
    """What may stand behind the name, after a colon; see `parse`."""

    def __post_init__(self) -> None:
        one_of("of", self.of, OF)
        at_least_one("every", self.every)
        one_of("algorithm", self.algorithm, ALGORITHMS)
        one_of("on_loss", self.on_loss, LOSSES)

    @classmethod
    def parse(cls, text: str) -> AllReduce:
        """Return the strategy for what stands behind its name: ``star``, or ``parameters/10``.

        Parameters
        ----------
        text : str
            What workers average, or an algorithm. After a slash, how many batches are between two
            exchanges.

        Raises
        ------
        ConfigError
            It is something else.
        """
        first, slash, every = text.partition("/")
        if first not in (*OF, *ALGORITHMS) or (slash and not every.isdecimal()):
            known = *OF, *ALGORITHMS
            hint = did_you_mean(first, known)
            if first in known:
                hint = f" BATCHES is a whole number, such as in allreduce:{first}/10."
            if ":" in text:
                both = "tos.strategies.AllReduce('parameters', 10, 'ring')"
                hint = f" Give an object for more, such as {both}."
            raise ConfigError(
                f"strategy: expected allreduce:WHAT or allreduce:WHAT/BATCHES, where WHAT is one "
                f"of {', '.join(known)}; got 'allreduce:{text}'.{hint}"
            )
        made = cls(every=int(every) if slash else 1)
        return replace(made, of=first) if first in OF else replace(made, algorithm=first)

    @property
    def sync_interval(self) -> int:
        """See `Strategy.sync_interval`."""
        return self.every

    @property
    def needs(self) -> frozenset[str]:
        """See `Strategy.needs`."""
        return frozenset({"gradients"}) if self.of == "gradients" else frozenset()

    @property
    def exchange(self) -> ExchangeMaker:
        """See `Strategy.exchange`."""
        if self.algorithm == "star":
            return exchange
        return MeshExchangeMaker(self.of, self.algorithm)

    def trainer(self, setup: TrainerSetup) -> ReduceTrainer:
        """See `Strategy.trainer`."""
        optimizer = setup.updater() if self.needs else None
        if self.algorithm == "star":
            return ReduceTrainer(setup, optimizer)
        return MeshTrainer(setup, optimizer, self.algorithm == "auto")

    def detour(self) -> AllReduce:
        """Return the same through the driver, for workers that cannot reach each other."""
        return replace(self, algorithm="star")

    def settings(self, combiner: Combiner | None, codec: CodecPair) -> ReduceSettings:
        """See `Strategy.settings`."""
        return self._settings(codec, combiner)

    def _settings(self, codec: CodecPair, outer: Combiner | None = None) -> ReduceSettings:
        continues = self.on_loss == "continue"
        return ReduceSettings(self.of, codec, self.algorithm, outer, continues).checked()

    def exact_settings(self) -> ReduceSettings:
        """See `Strategy.exact_settings`."""
        return self._settings(PLAIN)

    def settings_to_json(self, settings: ReduceSettings) -> dict[str, Any]:
        """See `Strategy.settings_to_json`."""
        outer = None if settings.outer is None else describe(settings.outer, MADE)
        return {"of": settings.of, "codec": str(settings.codec), "combiner": outer}

    def settings_from_json(
        self, value: Mapping[str, Any], combiner: Combiner | None = None
    ) -> ReduceSettings:
        """See `Strategy.settings_from_json`."""
        # Earlier versions have saved none.
        outer = value.get("combiner")
        made = None if outer is None else rebuild(outer, MADE)
        return replace(self._settings(as_codecs(value["codec"]), made), of=value["of"])
