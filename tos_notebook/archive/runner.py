"""What trains a program on a worker: the protocols, and what their calls return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..common.arrays import Array, Arrays
from ..common.table_rows import TableRows
from .spec import ProgramSpec


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
class TrainedRows:
    """What one training call returns that knows which rows of tables it may have changed.

    Parameters
    ----------
    parameters : sequence of ndarray
        New values of all parameters but tables, in the layout's order.
    tables : sequence of TableRows
        Of each table, the rows that may have changed.
    values : mapping of str to float
        See `Trained`.
    """

    parameters: Sequence[Array]
    tables: Sequence[TableRows]
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

    def train_rows(
        self, vectors: Arrays, moved: Sequence[Array | None], columns: Arrays, batch_size: int
    ) -> TrainedRows | None:
        """Adopt parameters and train on rows, as `train` does, where few rows of tables change.

        Parameters
        ----------
        vectors : sequence of ndarray, one per segment, shape (segment.size,)
            See `train`.
        moved : sequence of (ndarray or None)
            Of each table, which rows are others there than what the last call has left; None for
            any.
        columns : sequence of ndarray, one per feed, shape (rows, ...)
            See `train`.
        batch_size : int

        Returns
        -------
        TrainedRows or None
            None if the program changes tables in other ways than by row; then nothing was trained.
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

    def reset_non_finite_state(self) -> None:
        """Reset the optimizer state if it holds NaN or infinity, as after a bad row.

        No later update would be finite.
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


class ServedRunner(Runner, Protocol):
    """Trains a program with served tables, of which it has the rows of one call."""

    def served_ids(self, columns: Arrays) -> list[Array]:
        """Return which rows of each served table some rows of data need.

        Parameters
        ----------
        columns : sequence of ndarray, one per feed, shape (rows, ...)

        Returns
        -------
        list of ndarray, shape (k,), int64
            Of each table; ascending, each once.
        """
        ...

    def place_rows(self, ids: Sequence[Array], rows: Sequence[Array]) -> None:
        """Take the rows of served tables that the next calls of `train` need.

        Parameters
        ----------
        ids : sequence of ndarray, shape (k,), int64
            What `served_ids` has returned.
        rows : sequence of ndarray, shape (k, table.columns), float32
            Those of each table. Only read; the caller's again once the call returns.
        """
        ...

    def take_rows(self, ids: Sequence[Array]) -> list[Array]:
        """Return the rows of served tables as they are now.

        Parameters
        ----------
        ids : sequence of ndarray, shape (k,), int64
            What `place_rows` was given.
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
