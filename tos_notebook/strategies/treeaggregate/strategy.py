"""MLlib's gradient descent as a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...blocks.sampling import SAMPLERS, Sampler
from ...codecs.pair import CodecPair
from ...combiners.base import Combiner
from ...common.checks import (
    at_least_one,
    at_least_zero,
    below,
    fraction,
    not_negative,
    one_of,
    positive,
    with_known_parameters,
)
from ...errors import ConfigError
from ..allreduce.lockstep import Lockstep
from ..base import TrainerSetup
from .descent import GradientDescent
from .settings import TreeSettings, check_codec
from .trainer import TreeTrainer
from .updaters import UPDATERS

DEPTH = 2
"""Of the tree, in MLlib."""


@with_known_parameters
@dataclass(frozen=True, slots=True)
class TreeAggregate(Lockstep):
    """Mini-batch gradient descent as in Spark's MLlib, for any program that has gradients.

    An epoch is one iteration. In iteration i each worker draws a sample of its rows and computes
    their gradient. The driver adds up in the order of the partitions, and makes one step of size
    ``step_size / sqrt(i)`` by MLlib's updater. The program's optimizer has no part. A sample
    without rows makes no step, and the iteration counts. The result does not depend on the number
    of partitions, nor on the batch size, but for rounding.

    One Spark job trains all iterations, whose workers keep their connection to the driver. With
    `jobs` each iteration is a separate Spark job, as in MLlib.

    The algorithm is that of `org.apache.spark.mllib.optimization.GradientDescent`; see Meng et al.
    2016, "MLlib: Machine Learning in Apache Spark", JMLR 17(34).

    Parameters
    ----------
    fraction : float
        The part of its rows that a worker draws, each row by itself; above 0, at most 1.
    step_size : float
        The size of the first step, above 0. A learning rate that a run is given takes its place.
    updater : {"none", "l2", "l1"}
        MLlib's `SimpleUpdater`, `SquaredL2Updater` or `L1Updater`. It regularizes all trained
        parameters, the intercepts among them.
    reg_param : float
        How strongly, from 0. With ``"none"`` it must be 0.
    convergence_tol : float
        From 0 to below 1. The run stops when a step, from the second on, has changed the parameters
        by less than this times their Euclidean norm, or times 1 if that is larger. 0 for never.
    sampler : {"own", "mllib"}
        ``"mllib"`` draws the rows that MLlib draws of the same partitions, if `seed` is 42. The
        rows must stay in their partitions then: ``start(..., shuffle=False)``.
    seed : int
        Of the samples; from 0. MLlib's own is 42.
    jobs : bool
        Whether each iteration is a Spark job: the driver broadcasts the parameters, and Spark's
        ``treeAggregate`` adds up the gradients. It is slower by the time that Spark takes for a
        job. Partitions may be more than Spark runs tasks at once, and no task connects to the
        driver. Spark itself repeats a task that fails; `worker_timeout` has no part.
    depth : int
        Of ``treeAggregate``'s tree, from 1; only with `jobs`. With 1, the driver adds up all
        gradients in the order of the partitions. With 2, MLlib's default, executors add some of
        them up first, from 6 partitions on, in any order.

    Raises
    ------
    ConfigError
        One of them is something else.
    """

    fraction: float = 1.0
    step_size: float = 1.0
    updater: str = "none"
    reg_param: float = 0.0
    convergence_tol: float = 0.001
    sampler: str = "own"
    seed: int = 42
    jobs: bool = False
    depth: int = DEPTH
    name = "treeaggregate"
    summary = "MLlib's gradient descent: a gradient of all workers' samples, a step in the driver."
    when = "To compare with MLlib, and for convex models with L1 or L2; one step in each epoch."

    def __post_init__(self) -> None:
        fraction("fraction", self.fraction)
        positive("step_size", self.step_size)
        one_of("updater", self.updater, tuple(UPDATERS))
        if at_least_zero("reg_param", self.reg_param) and self.updater == "none":
            raise ConfigError(
                f"reg_param: expected 0 with updater 'none', got {self.reg_param!r}. Choose "
                "updater='l2' or 'l1'."
            )
        below("convergence_tol", self.convergence_tol, 1)
        one_of("sampler", self.sampler, SAMPLERS)
        not_negative("seed", self.seed)
        if not isinstance(self.jobs, bool):
            raise ConfigError(f"jobs: expected True or False, got {self.jobs!r}.")
        if at_least_one("depth", self.depth) != DEPTH and not self.jobs:
            raise ConfigError(
                f"depth: expected jobs=True with it, since else the driver adds up all gradients "
                f"itself; got {self.depth}. Add jobs=True, or leave depth out."
            )

    @property
    def sync_interval(self) -> int:
        """See `Strategy.sync_interval`."""
        return 1

    @property
    def needs(self) -> frozenset[str]:
        """See `Strategy.needs`."""
        return frozenset({"gradients", "no optimizer"})

    @property
    def sampling(self) -> Sampler:
        """See `Strategy.sampling`."""
        return Sampler(self.fraction, self.sampler, self.seed)

    def trainer(self, setup: TrainerSetup) -> TreeTrainer:
        """See `Strategy.trainer`."""
        rule = self.step_size, self.updater, self.reg_param, self.convergence_tol
        return TreeTrainer(setup, GradientDescent(setup.layout, *rule))

    def settings(self, combiner: Combiner | None, codec: CodecPair) -> TreeSettings:
        """See `Strategy.settings`."""
        if combiner is not None:
            raise ConfigError(
                f"combiner: expected none with strategy 'treeaggregate', whose updater makes each "
                f"step; got {combiner.name}. Leave it out, or train with strategy='ps'."
            )
        check_codec(codec)
        return self.exact_settings()

    def exact_settings(self) -> TreeSettings:
        """See `Strategy.exact_settings`."""
        rule = self.step_size, self.updater, self.reg_param, self.fraction
        return TreeSettings(*rule, self.depth if self.jobs else None)

    def settings_to_json(self, settings: TreeSettings) -> dict[str, Any]:
        """See `Strategy.settings_to_json`."""
        return asdict(settings)

    def settings_from_json(
        self, value: Mapping[str, Any], combiner: Combiner | None = None
    ) -> TreeSettings:
        """See `Strategy.settings_from_json`."""
        return TreeSettings(**value)
