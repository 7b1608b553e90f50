"""Keras 2 for programs that ask for it with ``TF_USE_LEGACY_KERAS=1``: the package tf-keras."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..nodes.body import Main
from ..nodes.context import NodeContext

ASKED = "TF_USE_LEGACY_KERAS"
"""The environment variable by which TensorFlow takes tf-keras for its Keras."""


@dataclass(frozen=True)
class WithLegacyKeras:
    """A node's function that finds Keras 2 as it was, where the environment asks for it.

    Parameters
    ----------
    main : callable
        The user's function of (args, context).
    """

    main: Main

    def __call__(self, args: Any, context: NodeContext) -> object:
        """Call the function."""
        if os.environ.get(ASKED) in ("1", "true", "True"):
            honor_lr()
        return self.main(args, context)


def honor_lr() -> bool:
    """Let optimizers of tf-keras take ``lr`` for the learning rate, as those of Keras 2 did.

    tf-keras warns of it, and then trains with the optimizer's own default. Calling it again does
    nothing.

    Returns
    -------
    bool
        Whether tf-keras is there.
    """
    try:
        from tf_keras.src.optimizers.optimizer import _BaseOptimizer as Base
    except ImportError:
        return False
    if not hasattr(Base, "_tos_lr"):
        process, build = Base._process_kwargs, Base._build_learning_rate

        def take(self: Any, kwargs: dict[str, Any]) -> None:
            self._tos_lr = kwargs.pop("lr", None)
            process(self, kwargs)

        def build_rate(self: Any, learning_rate: Any) -> Any:
            return build(self, learning_rate if self._tos_lr is None else self._tos_lr)

        Base._tos_lr, Base._process_kwargs, Base._build_learning_rate = None, take, build_rate
    return True
