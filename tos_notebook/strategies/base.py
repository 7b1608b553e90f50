"""What a strategy is: how what workers learn is combined.

A strategy has two sides. In the driver a `Trainer` holds the parameters of one run and serves its
workers' exchanges; in each worker an `Exchange` brings the parameters to train and takes what was
trained. The control plane (`coordination`) counts batches, steers and watches for both. It knows
no parameters.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..common.arrays import Array, Buffer
from ..coordination.exchange import Trainer
from ..coordination.settings import Settings
from ..layout import Layout
from ..worker.exchange import ExchangeMaker


class Strategy(Protocol):
    """How runs are trained; immutable."""

    name: str
    """By which users choose it."""

    @property
    def exchange(self) -> ExchangeMaker:
        """What makes the worker's side; picklable."""

    def trainer(self, layout: Layout, initial: Buffer, settings: Settings) -> Trainer:
        """Return the driver's side of one run.

        Parameters
        ----------
        layout : Layout
        initial : ndarray, shape (layout.nbytes,), uint8
            The first parameters; copied.
        settings : Settings
            Those that the run begins with.
        """

    def exact_settings(self) -> Any:
        """Return settings of its own by which changes add up and nothing is left out."""

    def settings_to_json(self, settings: Any) -> dict[str, Any]:
        """Return the strategy's own settings as plain values."""

    def settings_from_json(self, value: dict[str, Any], combiner: Any = None) -> Any:
        """Return the settings of which `settings_to_json` made plain values.

        Parameters
        ----------
        value : dict
        combiner : Combiner, optional
            A user's own, which plain values cannot name.

        Raises
        ------
        CheckpointError
            They do not go together, or one is the user's own and was not given.
        """

    def to_parts(self, copied: Any) -> tuple[dict[str, Any], list[Array]]:
        """Return what `Trainer.snapshot` returned as a JSON value and arrays."""

    def from_parts(self, value: dict[str, Any], arrays: list[Array]) -> Any:
        """Return what `Trainer.restore` takes.

        Raises
        ------
        TypeError, ValueError, LookupError
            The value is something else.
        """
