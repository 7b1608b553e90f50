"""The work that the driver gives to all workers of a job."""

from __future__ import annotations

from dataclasses import dataclass

from ..blocks.sampling import Participants, Sampler


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of a worker; the same for all workers of a job.

    Parameters
    ----------
    run : str
        The run's id.
    seed : int
        The seed of the order of rows.
    shuffle : bool
        Whether that order is random.
    batch_size : int
        Rows of one batch.
    columns : int
        Columns to fetch from the server; 0 where Spark brings the rows.
    optimizer_state : {"keep", "reset"}
        Whether an adopting worker keeps its optimizer state.
    count_labels : bool
        Whether to tell the server of the rows' labels: they are trained in the partitions in
        which they come.
    swap : int
        Of the strategy: another one than before begins with new optimizers on the workers.
    sampler : Sampler, optional
        Draws the rows of each epoch, of which one step is made; None for all rows, in batches.
    participants : Participants, optional
        Choose the partitions that train in an epoch; None for all.
    """

    run: str
    seed: int
    shuffle: bool
    batch_size: int
    columns: int
    optimizer_state: str = "keep"
    count_labels: bool = False
    swap: int = 0
    sampler: Sampler | None = None
    participants: Participants | None = None

    @property
    def leg(self) -> str:
        """Names the part of the run between two swaps: workers keep nothing over its end."""
        return f"{self.run}.{self.swap}" if self.swap else self.run
