"""What a front end asks of a run: check it, do it, answer it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from typing import Any

from ..chaos.words import as_rules
from ..common.threads import in_thread
from ..errors import ConfigError, TosError
from ..steering.actions import Action, When
from ..steering.machine import Command
from ..steering.source import VIEW, commands_from
from .facts import RunFacts
from .model import RunModel
from .news import Plain

logger = logging.getLogger(__name__)

COMMAND_TIMEOUT = 0.1
"""Seconds in which a command may fail, and say so in its answer. Commands that take longer (a
stop, a swap while a slow combiner works) are under way by then."""

GONE = "The run has ended and the kernel has let it go. Start another run."


def perform(run: Any, action: Action, arguments: Mapping[str, Any]) -> None:
    """Ask a run for a command.

    Parameters
    ----------
    run : Run
    action : Action
    arguments : mapping
        By name, as `Action.checked` returns them.

    Raises
    ------
    TosError
        The run refuses it.
    """
    if action.command is Command.CHAOS:
        run.chaos(*as_rules(**arguments))
    else:
        getattr(run, action.method)(**arguments)


class Steering:
    """Answers the commands that come in on a control channel.

    Parameters
    ----------
    facts : RunFacts
    model : RunModel
        Is told what was refused.
    patience : float
    """

    def __init__(self, facts: RunFacts, model: RunModel, patience: float = COMMAND_TIMEOUT) -> None:
        self._facts = facts
        self._model = model
        self._patience = patience

    def __call__(self, content: Mapping[str, Any]) -> Plain:
        """Do what a command asks, without waiting for its effect; return the answer."""
        answer = {"type": "answer", "id": content.get("id")}
        try:
            when = self._act(content.get("command"), content.get("arguments"))
        except TosError as error:
            self._model.refused(time.time(), str(content.get("command")), str(error))
            return answer | {"ok": False, "text": str(error)}
        return answer | {"ok": True, "when": str(when)}

    def _act(self, name: Any, arguments: Any) -> When:
        actions = self._facts.actions
        if not isinstance(name, str) or name not in actions:
            raise ConfigError(f"Expected one of {', '.join(actions)}; got {name!r}.")
        action = actions[name]
        given = action.checked({} if arguments is None else arguments)
        run = self._facts.run
        if run is None:
            raise TosError(GONE)

        def act() -> None:
            # On the thread that calls the run.
            with commands_from(VIEW):
                perform(run, action, given)

        self._start(name, act)
        return action.when

    def _start(self, name: str, call: Callable[[], object]) -> None:
        """Call on a thread of its own; raise what it raises soon, note what it raises later."""
        outcome = in_thread("tos-command", call)
        if not wait([outcome], self._patience).done:
            outcome.add_done_callback(lambda _: self._late(name, outcome.exception()))
            return
        error = outcome.exception()
        if isinstance(error, TosError):
            raise error
        if error is not None:
            logger.error("The command %s of a view failed.", name, exc_info=error)
            raise TosError(f"{type(error).__name__}: {error}") from error

    def _late(self, name: str, error: BaseException | None) -> None:
        if error is not None:
            self._model.refused(time.time(), name, str(error))
