"""Every command of a run: what it takes, when it takes effect, and what is said of it.

Magics, the view and the plug-in for JupyterLab make their commands of this table; the plug-in's
copy is written by `tools.palette`. One more command is a name in `machine.Command`, an entry here,
and a method of `Run` with the command's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from ..errors import ConfigError
from .machine import Command


class When(StrEnum):
    """When a command takes effect."""

    NOW = "now"
    MILESTONE = "milestone"
    """At each worker's next one."""
    EPOCH = "epoch"
    """At the end of the present one."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command; the run's method checks its value.

    Parameters
    ----------
    name : str
        As the run's method has it. ``Run.settings`` holds what is in force under the same name.
    kind : {int, float, str}
        What a value is made of where it comes as text.
    help : str
        For the magic.
    metavar : str
        What stands for a value in the magic's help.
    label : str
        What the view calls it. The view has no field for an argument without a label.
    offers : str
        Of what magics and views offer a choice: "combiner", "sync", "codec" or "chaos".
    optional : bool
        Whether the command does without it.
    flag : bool
        Whether it is an option of the magic.
    """

    name: str
    kind: type[int] | type[float] | type[str]
    help: str = ""
    metavar: str = "NAME"
    label: str = ""
    offers: str = ""
    optional: bool = False
    flag: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A command.

    Parameters
    ----------
    command : Command
    when : When
    magic : str
        The name of its magic, without the percent sign.
    help : str
        One line.
    arguments : tuple of Argument
        If all are optional, they are settings: any of them, but at least one.
    verb : str
        What the view writes on its button; the command's name by default.
    said : str
        What the magic says then, of the run's `number` and `state`, `what` was asked and `when`.
    more : str
        What the magic's help says below its first line.
    examples : tuple of str
        What may stand behind the magic.
    title : str
        What JupyterLab's palette calls it. Without a title it is not there.
    confirm : str
        What the palette says before it asks whether to do it; it does not ask by default.
    """

    command: Command
    when: When
    magic: str
    help: str
    arguments: tuple[Argument, ...] = ()
    verb: str = ""
    said: str = "Asked run {number} for {what}, {when}."
    more: str = ""
    examples: tuple[str, ...] = ("",)
    title: str = ""
    confirm: str = ""

    @property
    def method(self) -> str:
        """The run's method."""
        return self.command.replace(" ", "_")

    @property
    def is_settings(self) -> bool:
        """Whether it takes any of its arguments, but at least one."""
        return bool(self.arguments) and all(argument.optional for argument in self.arguments)

    def checked(self, arguments: Any) -> dict[str, Any]:
        """Return arguments by name, if they are those of the command.

        Raises
        ------
        ConfigError
            Something else, one is missing, or one too many.
        """
        known = [argument.name for argument in self.arguments]
        required = {argument.name for argument in self.arguments if not argument.optional}
        fits = isinstance(arguments, Mapping) and required <= set(arguments) <= set(known)
        if not fits or (known and not arguments):
            wanted = ", ".join(known) or "no argument"
            raise ConfigError(f"{self.command}: expected {wanted}; got {arguments!r}.")
        return dict(arguments)


_option = partial(Argument, optional=True, flag=True)

_ALL = (
    Action(
        Command.PAUSE,
        When.MILESTONE,
        "tos_pause",
        "Pause a run: each worker stops at its next milestone, and keeps what it has trained.",
        more="The view shows paused at once, and says when every worker waits. %tos_unpause "
        "continues the run.",
        said="Asked run {number} to pause, at each worker's next milestone. "
        "%tos_unpause continues it.",
        title="Pause Training",
    ),
    Action(
        Command.UNPAUSE,
        When.NOW,
        "tos_unpause",
        "End the pause of a run: its workers continue.",
        said="Run {number} continues.",
        more="%tos_resume continues a saved run from its last checkpoint.",
        examples=("", "wide"),
        title="Unpause Training",
    ),
    Action(
        Command.STOP,
        When.MILESTONE,
        "tos_stop",
        "Stop a run now and keep the weights.",
        said="Run {number} is {state}. Its weights are kept, in the model and in the run.",
        more="Of a TensorFlow cluster it ends all nodes.",
        examples=("", "wide", "cluster"),
        title="Stop and Keep Weights…",
        confirm="The run ends and keeps its weights. You cannot unpause it.",
    ),
    Action(
        Command.REPARTITION,
        When.EPOCH,
        "tos_repartition",
        "Repartition the data of a run at random, at the end of the current epoch.",
        (Argument("partitions", int, "of the next epochs", "N", "Partitions"),),
        examples=("4",),
        title="Repartition…",
    ),
    Action(
        Command.SWAP_COMBINER,
        When.MILESTONE,
        "tos_combiner",
        "Merge by another combiner, from each worker's next milestone on.",
        (
            Argument(
                "combiner",
                str,
                "how the server merges: a built-in's name, or a variable that holds a combiner",
                label="Combiner",
                offers="combiner",
            ),
        ),
        verb="Swap",
        examples=("easgd", "mine"),
        title="Swap Combiner…",
    ),
    Action(
        Command.SWAP_STRATEGY,
        When.EPOCH,
        "tos_strategy",
        "Train by another strategy from the end of the current epoch on.",
        (
            Argument(
                "strategy",
                str,
                "what workers exchange, and with whom: a name, or a variable that holds a strategy",
                label="Strategy",
                offers="strategy",
            ),
            _option("combiner", str, "how the server merges then", offers="combiner"),
            _option("sync", str, "who waits for whom then", "MODE", offers="sync"),
            _option("sync_interval", int, "batches between two exchanges then", "N"),
            _option("codec", str, "how updates and replies are encoded then", offers="codec"),
        ),
        verb="Swap",
        more="Parameters, version and global step continue, and rows stay in their partitions. "
        "Other settings take the new strategy's defaults. Of several swaps in an epoch, the "
        "last one counts.",
        examples=("allreduce", "ps --combiner fedavg --sync bsp"),
        title="Swap Strategy…",
    ),
    Action(
        Command.SET,
        When.MILESTONE,
        "tos_set",
        "Change learning rate, sync interval, sync mode or codec, from the next milestone on.",
        (
            Argument("sync", str, label="Sync mode", offers="sync", optional=True),
            Argument("sync_interval", int, label="Exchange every (batches)", optional=True),
            Argument("codec", str, label="Codec", offers="codec", optional=True),
            Argument("learning_rate", float, label="Learning rate", optional=True),
        ),
        more="combiner=... and partitions=... do what %tos_combiner and %tos_repartition do, "
        "strategy=... what %tos_strategy does, at the end of the current epoch.",
        examples=(
            "learning_rate=0.01 sync_interval=20",
            "combiner=easgd partitions=4",
            "sync=ssp:3 codec=int8",
            "strategy=allreduce",
        ),
    ),
    Action(
        Command.CHAOS,
        When.MILESTONE,
        "tos_chaos",
        "Slow, pause or kill a worker on purpose, to see what the training makes of it.",
        (
            Argument(
                "what",
                str,
                "slow, pause or kill; off ends what is in force",
                "WHAT",
                offers="chaos",
            ),
            Argument(
                "amount",
                float,
                "how many times slower, or seconds of a pause",
                "AMOUNT",
                optional=True,
            ),
            _option(
                "worker",
                int,
                "whom: the worker of a partition, by its number from 0; else one worker is drawn",
                "N",
            ),
            _option("executor", str, "whom: all workers of one of Spark's executors", "ID"),
            _option(
                "at",
                int,
                "when: this milestone only, counted from 1 for each worker, from its next one on",
                "N",
            ),
            _option("for_seconds", float, "how long at most; until the run's end by default", "X"),
        ),
        said="CHAOS in run {number}, {when}: {what}.\n"
        "%tos_chaos off ends it, and so does the run's end.",
        more="It ends with the run at the latest. Each time replaces what was in force before. "
        "A slowed worker sleeps, 60 s in one milestone at most. A worker is killed once, and Spark "
        "tries its task again where its master allows that: local[2,4], or a cluster.",
        examples=(
            "slow 5 --worker 1",
            "slow 3 --executor 0 --for-seconds 120",
            "pause 2 --worker 1",
            "kill --worker 1 --at 3",
            "off",
        ),
    ),
)

ACTIONS: Mapping[str, Action] = {action.command: action for action in _ALL}
"""By the command's name."""
