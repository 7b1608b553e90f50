"""Keeps or resets a worker's optimizer state when it adopts the server's parameters."""

from __future__ import annotations

from ..archive.runner import Runner

POLICIES = ("keep", "reset")
"""See `tos_notebook.TrainingSession`."""


class OptimizerState:
    """The optimizer state of one worker's program.

    Parameters
    ----------
    runner : Runner
    policy : {"keep", "reset"}
    """

    def __init__(self, runner: Runner, policy: str) -> None:
        self._runner = runner
        self._policy = policy

    def follow(self) -> None:
        """Make it ready for parameters that the worker has just adopted."""
        if self._policy == "reset":
            self._runner.reset_optimizer_state()
