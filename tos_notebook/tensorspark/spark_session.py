"""The original's ``SparkSession``: a TF1 session whose ``run`` can train on an RDD.

Importing this module makes an empty graph TensorFlow's default in this thread, as TF1-style
programs expect: they create placeholders before they create any session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from ..program.capture import capture
from ..program.export.base import Program
from ..runtime.eager import enter_graph_mode
from ..training.session import TrainingSession

enter_graph_mode()

temporary_directory: str | None = None
"""A Hadoop URI for graphs and initial values; a directory of the driver by default."""


class SparkSession:
    """Runs operations of a TF1 session, on Spark if they are given an RDD to feed.

    Parameters
    ----------
    spark_context : SparkContext
    session : tf.compat.v1.Session
        Holds the graph and its values; receives the trained values.
    user, name : str
        Name the directory of this session's files under `temporary_directory`.
    server_host : str
        The driver's address, as the executors reach it.
    server_port : int
        0 for any free port.
    sync_interval : int
        Batches between two exchanges.
    batch_size : int
        Rows of one batch of each worker.
    """

    def __init__(
        self,
        spark_context: Any,
        session: Any,
        user: str = "",
        name: str = "",
        server_host: str = "localhost",
        server_port: int = 10080,
        sync_interval: int = 3,
        batch_size: int = 10000,
    ) -> None:
        self._spark_context = spark_context
        self._session = session
        self._directory = _directory(user, name)
        self._options: dict[str, Any] = {
            "server_host": server_host,
            "server_port": server_port,
            "sync_interval": sync_interval,
            "batch_size": batch_size,
        }
        self._programs: dict[Any, Program] = {}
        self._training: TrainingSession | None = None

    def run(
        self,
        fetches: Any,
        feed_rdd: Any = None,
        feed_name_list: Sequence[str] | None = None,
        param_list: Sequence[Any] | None = None,
        feed_dict: Mapping[Any, Any] | None = None,
        weight_combiner: Any = None,
        shuffle_within_partition: bool = False,
        server_reusable: bool = False,
    ) -> Any:
        """Run operations, over all records of an RDD if one is given.

        Parameters
        ----------
        fetches : tf.Operation, tf.Tensor or list of them
            With `feed_rdd`, what one training step runs.
        feed_rdd : RDD of tuple, optional
            One epoch's records. Without it this is a plain ``session.run``.
        feed_name_list : sequence of str, optional
            The placeholders that a record's fields feed, in order.
        param_list : sequence of tf.Variable, optional
            The synchronized variables; all trainable ones by default.
        feed_dict : mapping, optional
            Constants for placeholders that no record feeds.
        weight_combiner : optional
            An object with ``compute(origin_weight, new_weight, worker_id, name)``, or whatever
            `TrainingSession` takes; adds what each worker changed by default.
        shuffle_within_partition : bool
            Whether to take each partition's records in random order.
        server_reusable : bool
            Whether to keep the server for the next call.

        Returns
        -------
        Run, or what ``session.run`` returns
            A run if records were fed; it has ended.

        Raises
        ------
        ConfigError
            Records are fed, and `feed_name_list` is not given.
        TosError
            As `TrainingSession`, its `start` and `Run.wait`.
        """
        if feed_rdd is None:
            return self._session.run(fetches, feed_dict)
        if not feed_name_list:
            raise ConfigError(
                "feed_name_list: expected the names of the placeholders that the RDD's records "
                f"feed, such as [x.name, y_.name]; got {feed_name_list!r}."
            )
        program = self._program(fetches, feed_name_list, param_list, feed_dict)
        training = self._training_session(program, weight_combiner)
        try:
            shuffle = "partitions" if shuffle_within_partition else False
            return training.run(feed_rdd, epochs=1, shuffle=shuffle)
        finally:
            if not server_reusable:
                self.stop_param_server()

    def _program(
        self,
        fetches: Any,
        feed_names: Sequence[str],
        params: Sequence[Any] | None,
        constants: Mapping[Any, Any] | None,
    ) -> Program:
        options = {"feeds": list(feed_names), "params": params, "feed_dict": constants}
        key = repr((fetches, options))
        if key not in self._programs:
            self._programs[key] = capture(fetches, session=self._session, **options)
        return self._programs[key]

    def _training_session(self, program: Program, combiner: Any) -> TrainingSession:
        combiner = "delta" if combiner is None else combiner
        kept = self._training
        if kept is not None and kept.program is program and not kept.closed:
            kept.combiner = combiner
            return kept
        self.stop_param_server()
        self._training = TrainingSession(
            self._spark_context,
            program,
            combiner=combiner,
            checkpoint_dir=self._directory,
            **self._options,
        )
        return self._training

    def stop_param_server(self) -> None:
        """Stop a server that `run` kept; harmless when repeated."""
        if self._training is not None:
            self._training.close()
            self._training = None

    def close(self) -> None:
        """Stop the server. The TF session stays open: it is the caller's."""
        self.stop_param_server()

    def __enter__(self) -> SparkSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _directory(user: str, name: str) -> str | None:
    if temporary_directory is None:
        return None
    return "/".join(part for part in (temporary_directory.rstrip("/"), user, name) if part)
