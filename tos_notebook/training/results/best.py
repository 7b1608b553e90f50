"""The parameters of a run's best validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...common.arrays import Array, Buffer
from ...errors import CheckpointError, ConfigError
from ...layout import Layout
from ...persist.sealed import Sealed
from ...persist.values import require_plain
from .held_model import HeldModel


@dataclass(frozen=True, slots=True)
class BestParameters:
    """The best validation of a run so far, and the parameters that were evaluated.

    Parameters
    ----------
    metric : str
        By which it is the best, such as ``val_loss``.
    value : float
        Its value.
    epoch : int
        From 1, as in `tos_notebook.Run.validation`.
    samples : int
        How many had been trained.
    uri : str or None
        The file that holds the parameters, in the folder of the run's checkpoints; None without.
    """

    metric: str
    value: float
    epoch: int
    samples: int
    uri: str | None = None
    _layout: Layout = field(default_factory=lambda: Layout([]), repr=False)
    _buffer: Buffer | None = field(default=None, repr=False, compare=False)
    _model: HeldModel | None = field(default=None, repr=False, compare=False)

    def parameters(self) -> dict[str, Array]:
        """Return a copy of the parameters, by name."""
        assert self._buffer is not None
        tensors = self._layout.tensors(self._buffer)
        return {spec.name: tensors[spec.name].copy() for spec in self._layout.of_model.specs}

    def restore(self) -> None:
        """Write the parameters into the user's model or session; call it when the run has ended.

        What evaluates or saves the run afterwards writes its current parameters there again.

        Raises
        ------
        ConfigError
            The run is one that was saved, which has no model here.
        """
        if self._model is None:
            raise ConfigError(
                "restore: expected a run of this process, which has a model to write to. Take "
                "parameters(), or continue the run: tos.resume(uri, program=model, epochs=...)."
            )
        assert self._buffer is not None
        with self._model.held() as program:
            program.write(self._buffer)

    def to_parts(self) -> tuple[Mapping[str, Any], list[Array]]:
        """Return plain JSON and arrays; `best_of` undoes it."""
        assert self._buffer is not None
        told = {n: getattr(self, n) for n in ("metric", "value", "epoch", "samples")}
        return {**told, "layout": self._layout.to_json()}, [self._buffer]


def best_of(sealed: Sealed, uri: str, model: HeldModel | None = None) -> BestParameters:
    """Return what a file holds.

    Parameters
    ----------
    sealed : Sealed
    uri : str
        Of the file.
    model : HeldModel, optional
        What `BestParameters.restore` writes to.

    Raises
    ------
    TypeError, ValueError, LookupError, TosError
        It is another kind of file, or of another model.
    """
    value: Mapping[str, Any] = dict(sealed.value)
    told = {n: value[n] for n in ("metric", "value", "epoch", "samples")}
    require_plain(BestParameters, told)
    layout, (buffer,) = Layout.from_json(value["layout"]), sealed.arrays
    if buffer.shape != (layout.nbytes,) or buffer.dtype != "uint8":
        raise CheckpointError(
            f"{uri}: expected parameters of {layout.nbytes} bytes, got {buffer.dtype} of shape "
            f"{buffer.shape}."
        )
    if model is not None and model.program.layout != layout:
        own = model.program.layout.allocate()
        model.program.layout.adopt(own, layout, buffer)
        layout, buffer = model.program.layout, own
    return BestParameters(**told, uri=uri, _layout=layout, _buffer=buffer, _model=model)
