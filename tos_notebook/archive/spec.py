"""What a worker and the driver must know of a program, or a model, without loading TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Protocol

from ..common.arrays import Array, Arrays
from ..errors import RemoteProtocolError
from ..layout import Layout

SPEC_FILE = "spec.json"
"""Name of the specification inside a program's archive."""

SIGNATURE_FILE = "signature.json"
"""Name of the signature inside a served model's archive."""

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class FeedSpec:
    """One input of a program.

    Parameters
    ----------
    name : str
        The placeholder's name, or a Keras input's.
    dtype : str or None
        None where the program takes the data's own dtype.
    shape : tuple of (int or None), or None
        Without the batch dimension; None for a size that may vary, or for an unknown rank.
    classes : int or None
        Of labels from 0 to classes - 1: how many; None for what is not a label, or unknown.
    part : {"inputs", "labels", "weight", ""}
        What it is of a record; empty where the program does not say.
    """

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None
    classes: int | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """A captured program as data: what goes in, what is trained, what comes out.

    Parameters
    ----------
    kind : {"graph", "keras", "module"}
    feeds : tuple of FeedSpec
        In the order of a record's fields.
    layout : Layout
        The parameters that are synchronised.
    outputs : tuple of str
        Names of the values of a training call; the first is the loss if there is one.
    learning_rate : bool
        Whether the learning rate is a variable that can be set while training.
    optimizer_state : tuple of str, optional
        Names of the tensors that the optimizer keeps for the parameters, local to each worker;
        none for plain SGD.
    frozen : str
        Digest of the values that the archive holds and training leaves as they are; empty for
        none.
    gradients : bool
        Whether a worker only computes gradients, and the optimizer makes its step elsewhere.
    scales_loss : bool
        Whether the optimizer scales the loss, and lowers the scale where gradients are not finite.
        It makes no step by those: they are to reach it, and are no error.
    sessions : bool
        Whether the archive holds a TF1-style graph itself, which sessions train on variables that
        are on TensorFlow's servers.
    """

    kind: str
    feeds: tuple[FeedSpec, ...]
    layout: Layout
    outputs: tuple[str, ...]
    learning_rate: bool
    optimizer_state: tuple[str, ...] = ()
    frozen: str = ""
    gradients: bool = False
    scales_loss: bool = False
    sessions: bool = False

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        return json.dumps(
            {
                "kind": self.kind,
                "feeds": [astuple(feed) for feed in self.feeds],
                "layout": self.layout.to_json(),
                "outputs": self.outputs,
                "learning_rate": self.learning_rate,
                "optimizer_state": self.optimizer_state,
                "frozen": self.frozen,
                "gradients": self.gradients,
                "scales_loss": self.scales_loss,
                "sessions": self.sessions,
            }
        ).encode()

    @classmethod
    def from_json(cls, data: bytes) -> ProgramSpec:
        """Rebuild from `to_json`'s bytes.

        Raises
        ------
        RemoteProtocolError
            The bytes are not a program's specification.
        """
        try:
            value = json.loads(data)
            feeds = tuple(
                FeedSpec(name, dtype, None if shape is None else tuple(shape), *rest)
                for name, dtype, shape, *rest in value["feeds"]
            )
            return cls(
                value["kind"],
                feeds,
                Layout.from_json(value["layout"]),
                tuple(value["outputs"]),
                bool(value["learning_rate"]),
                tuple(value["optimizer_state"]),
                str(value.get("frozen", "")),
                bool(value.get("gradients", False)),
                bool(value.get("scales_loss", False)),
                bool(value.get("sessions", False)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteProtocolError(f"Not a program specification: {error}") from error


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a served model.

    Parameters
    ----------
    key : str
        Its name in the SavedModel's signature.
    name : str
        What users call it.
    dtype : str or None
        None where data of any dtype are taken.
    shape : tuple of (int or None), or None
        Without the batch dimension; None for a size that may vary, or for an unknown rank.
    """

    key: str
    name: str
    dtype: str | None
    shape: Shape | None

    @property
    def classes(self) -> None:
        """What goes into a model is not a label; see `tos_notebook.blocks.feeds.Feed`."""
        return None

    @property
    def part(self) -> str:
        """What is saved says nothing of records; see `tos_notebook.blocks.feeds.Feed`."""
        return ""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a served model is called.

    Parameters
    ----------
    entry : str
        Which of the SavedModel's signatures.
    inputs, outputs : tuple of Port
    """

    entry: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        ports = {
            "inputs": [astuple(port) for port in self.inputs],
            "outputs": [astuple(port) for port in self.outputs],
        }
        return json.dumps({"entry": self.entry, **ports}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Signature:
        """Rebuild from `to_json`'s bytes.

        Raises
        ------
        RemoteProtocolError
            The bytes are no signature.
        """
        try:
            value = json.loads(data)
            return cls(value["entry"], _ports(value["inputs"]), _ports(value["outputs"]))
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteProtocolError(f"Not a model's signature: {error}") from error


def _ports(values: Sequence[tuple[str, str, str | None, Shape | None]]) -> tuple[Port, ...]:
    return tuple(
        Port(key, name, dtype, None if shape is None else tuple(shape))
        for key, name, dtype, shape in values
    )


def read_spec(archive: Path) -> ProgramSpec:
    """Return the specification in a program's archive.

    Raises
    ------
    RemoteProtocolError
        The file is not a program's archive.
    """
    return ProgramSpec.from_json(_packed(archive, SPEC_FILE, "a program's"))


def read_signature(archive: Path) -> Signature:
    """Return the signature in a served model's archive.

    Raises
    ------
    RemoteProtocolError
        The file is no served model's archive.
    """
    return Signature.from_json(_packed(archive, SIGNATURE_FILE, "a served model's"))


def _packed(archive: Path, name: str, whose: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as packed:
            return packed.read(name)
    except (zipfile.BadZipFile, KeyError) as error:
        raise RemoteProtocolError(f"Not {whose} archive: {error}") from error


@dataclass(frozen=True, slots=True)
class Trained:
    """What one training call returns.

    Parameters
    ----------
    parameters : sequence of ndarray
        Their new values, in the layout's order. Of a program that was exported for gradients,
        instead of each value that an optimizer changes, its mean gradient over the rows.
    values : mapping of str to float
        The program's outputs, means over the call's samples.
    """

    parameters: Sequence[Array]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Advanced:
    """What an optimizer's step and the next training call return together.

    Parameters
    ----------
    parameters : sequence of ndarray, one per segment, shape (segment.size,)
        After the step.
    gradients : sequence of ndarray
        Likewise: what `Trained.parameters` has of the rows.
    values : mapping of str to float
        See `Trained`.
    """

    parameters: Sequence[Array]
    gradients: Sequence[Array]
    values: Mapping[str, float]


class Updater(Protocol):
    """The optimizer of a program that was exported for gradients. One thread calls it at a time."""

    scales_loss: bool
    """Whether NaN and infinity in gradients are its business; see `ProgramSpec`."""

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        """Return the parameters after one step of the optimizer.

        Parameters
        ----------
        vectors : sequence of ndarray, one per segment, shape (segment.size,)
            The parameters before. Only read; the caller's again once the call returns.
        means : sequence of ndarray
            Likewise: the means, weighted by rows, of what `Runner.train` returned on all workers.

        Returns
        -------
        sequence of ndarray
            In the layout's order. Valid until the next call.
        """
        ...

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        ...

    def state(self) -> list[Array]:
        """Return copies of what the optimizer keeps, for `restore`."""
        ...

    def restore(self, state: Sequence[Array]) -> None:
        """Continue from what `state` returned.

        Parameters
        ----------
        state : sequence of ndarray

        Raises
        ------
        ValueError
            It is another program's; nothing was changed.
        """
        ...


class Runner(Protocol):
    """Trains a program on a worker. `NumpyProgram` of the tests is one without TensorFlow."""

    spec: ProgramSpec

    def load(self) -> None:
        """Get ready to train, which may take seconds; `train` does so itself where need be."""
        ...

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        """Adopt parameters and train on rows, batch by batch, in their order.

        Parameters
        ----------
        vectors : sequence of ndarray, one per segment, shape (segment.size,)
            Only read; the caller's again once the call returns.
        columns : sequence of ndarray, one per feed, shape (rows, ...)
            Likewise. At least one row.
        batch_size : int
            The last batch holds what is left of the rows.

        Returns
        -------
        Trained
            Its arrays may share memory with the program; they keep their values, and are best
            let go of before the next call, which must copy what is still held.
        """
        ...

    def updater(self) -> Updater:
        """Return the optimizer, of a program that was exported for gradients."""
        ...

    def advance(
        self, vectors: Arrays, means: Arrays, columns: Arrays, batch_size: int
    ) -> Advanced | None:
        """Make the optimizer's step, and train on the next rows, in one call.

        The results are those of `Updater.update` and `train`, to the bit.

        Parameters
        ----------
        vectors : sequence of ndarray, one per segment, shape (segment.size,)
            The parameters before the step: those of the last call, which was `train` or this.
        means : sequence of ndarray
            See `Updater.update`.
        columns : sequence of ndarray, one per feed, shape (rows, ...)
            See `train`.
        batch_size : int
            Likewise.

        Returns
        -------
        Advanced or None
            None if the program cannot do so with these rows; then nothing was changed.
        """
        ...

    def set_learning_rate(self, value: float) -> None:
        """Set the learning-rate variable.

        Parameters
        ----------
        value : float
            Above 0.
        """
        ...

    def reset(self) -> None:
        """Put everything local (optimizer state, counters) back to its captured value."""
        ...

    def reset_optimizer_state(self) -> None:
        """Put the optimizer state back to its captured values.

        So are counters by which an optimizer corrects for state that has begun at 0. A schedule
        of the learning rate continues, and so does all else that is local: metrics, random seeds.
        """
        ...

    def explain(self, error: BaseException) -> tuple[str, list[str]] | None:
        """Say what failed in `train`, and where the user's code made it.

        Parameters
        ----------
        error : BaseException
            What `train` raised.

        Returns
        -------
        tuple of (str, list of str), or None
            The message: ``TypeName: text`` in one sentence. Then the frames as
            `traceback.format_list` writes them, innermost last and without the last line break; the
            layer's name where no code of the user's made the operation. None if the program's own
            operations did not raise it.
        """
        ...


class SessionRunner(Runner, Protocol):
    """Trains a program on variables that are on TensorFlow's servers; `vectors` are not used."""

    def connect(self, servers: Sequence[str], host: str, partition: int) -> int:
        """Train on the variables of these servers from now on.

        Parameters
        ----------
        servers : sequence of str
            Their addresses, as host:port, in the order of their tasks.
        host : str
            Where they reach this process.
        partition : int
            The worker's.

        Returns
        -------
        int
            The port of this process's own server.
        """
        ...
