"""What nodes give back for the rows of an RDD, as an RDD whose jobs fail with a readable error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NoReturn

from pyspark.core.rdd import PipelinedRDD

from ..cluster.jobs import spoken
from ..errors import TosError
from .feeder import Feeder


class Fetching:
    """Makes the jobs that fetch results.

    Parameters
    ----------
    feeder : Feeder
    check : callable
        Raises why there are no results to fetch, such as of a node that has failed.
    group : callable
        Returns the begin of the jobs' groups.
    """

    def __init__(self, feeder: Feeder, check: Callable[[], None], group: Callable[[], str]) -> None:
        self._feeder, self._check, self._group = feeder, check, group

    def fetch(self, job: Callable[[], Any]) -> Any:
        """Make a Spark job, and return what it does; a node that fails ends it.

        Raises
        ------
        TosError
            What has failed, as far as the driver knows it, else as Spark says.
        """
        self._check()
        try:
            return self._feeder.fetch(job, self._group())
        except TosError as error:
            failed = error
        return self.blame(failed)

    def blame(self, error: TosError) -> NoReturn:
        """Raise why a job has failed; see `fetch`."""
        self._check()
        raise error


class Results(PipelinedRDD):  # type: ignore[misc]
    """Results of nodes, and what functions make of them.

    Spark raises what fails in a task with the traces of its own calls, the user's line last. Here
    an error is one of this package's. RDDs behind a shuffle are Spark's again.

    Parameters
    ----------
    rows : RDD
    function : callable
        Of the number and the rows of a partition.
    fetching : Fetching
    preservesPartitioning : bool
        As of ``RDD.mapPartitionsWithIndex``.
    """

    def __init__(
        self,
        rows: Any,
        function: Callable[[int, Iterable[Any]], Iterable[Any]],
        fetching: Fetching,
        preservesPartitioning: bool = False,  # noqa: N803
    ) -> None:
        super().__init__(rows, function, preservesPartitioning)
        self._fetching = fetching

    def mapPartitionsWithIndex(  # noqa: N802
        self,
        f: Callable[[int, Iterable[Any]], Iterable[Any]],
        preservesPartitioning: bool = False,  # noqa: N803
    ) -> Results:
        """See ``RDD``, whose other functions of rows call this one."""
        return Results(self, f, self._fetching, preservesPartitioning)

    def collect(self) -> Any:
        """See ``RDD``; count, sum, reduce and others call this one."""
        return self._fetching.fetch(super().collect)

    def take(self, num: int) -> Any:
        """See ``RDD``."""
        return self._fetching.fetch(partial(super().take, num))

    def saveAsTextFile(  # noqa: N802
        self,
        path: str,
        compressionCodecClass: str | None = None,  # noqa: N803
    ) -> None:
        """See ``RDD``."""
        self._fetching.fetch(partial(super().saveAsTextFile, path, compressionCodecClass))

    def saveAsPickleFile(self, path: str, batchSize: int = 10) -> None:  # noqa: N802, N803
        """See ``RDD``."""
        self._fetching.fetch(partial(super().saveAsPickleFile, path, batchSize))

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:  # noqa: N802, N803
        """See ``RDD``."""
        try:
            with spoken():
                yield from super().toLocalIterator(prefetchPartitions)
            return
        except TosError as error:
            failed = error
        self._fetching.blame(failed)
