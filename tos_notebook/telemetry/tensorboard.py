"""TensorBoard's event files: written record by record, and read back as a table.

The records, their checksums and what is in them are the `tensorboard` package's.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..common import temporary
from ..common.histogram import Histogram
from ..errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("tag", "step", "time", "value")
"""Of the table that `read_scalars` returns."""


class Stream(Protocol):
    """Where records go."""

    def write(self, data: bytes, /) -> object:
        """Append to the file.

        Parameters
        ----------
        data : bytes
            Whole records.
        """

    def flush(self) -> object:
        """Let readers see what was written."""

    def close(self) -> object:
        """End the file."""


def require_tensorboard() -> None:
    """Check that the package is there.

    Raises
    ------
    ConfigError
        It is not.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "Event files need the package tensorboard, which is not installed. Install it where "
            "this notebook runs: pip install tensorboard. Executors do not need it."
        )


class EventWriter:
    """Writes one event file.

    Parameters
    ----------
    stream : Stream
        Of an event file, from its beginning.
    """

    def __init__(self, stream: Stream) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = event_pb2.Event
        self._records = RecordWriter(stream)
        self._write(time.time(), file_version="brain.Event:2")

    def scalars(self, when: float, step: int, values: Mapping[str, float]) -> None:
        """Write one value for each tag.

        Parameters
        ----------
        when : float
            Seconds since 1970.
        step : int
        values : mapping of str to float
        """
        from tensorboard.compat.proto import summary_pb2

        found = [summary_pb2.Summary.Value(tag=t, simple_value=v) for t, v in values.items()]
        self._write(when, step=step, summary=summary_pb2.Summary(value=found))

    def histograms(self, when: float, step: int, values: Mapping[str, Histogram]) -> None:
        """Write one histogram for each tag."""
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.plugins.histogram.metadata import create_summary_metadata
        from tensorboard.util.tensor_util import make_tensor_proto

        metadata = create_summary_metadata(display_name=None, description=None)
        found = []
        for tag, histogram in values.items():
            edges = np.asarray(histogram.edges, np.float64)
            rows = np.stack([edges[:-1], edges[1:], np.asarray(histogram.counts)], axis=1)
            tensor = make_tensor_proto(rows, np.float64)
            found.append(summary_pb2.Summary.Value(tag=tag, metadata=metadata, tensor=tensor))
        self._write(when, step=step, summary=summary_pb2.Summary(value=found))

    def settings(self, when: float, values: Mapping[str, bool | float | str]) -> None:
        """Write hyper-parameters."""
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        self._write(when, summary=hparams_pb(dict(values), start_time_secs=when))

    def graph(self, when: float, kind: str, content: bytes) -> None:
        """Write a graph: a GraphDef, or a Keras model's JSON where `kind` is ``keras``."""
        if kind != "keras":
            self._write(when, graph_def=content)
            return
        from tensorboard.compat.proto import summary_pb2, tensor_pb2, types_pb2

        metadata = summary_pb2.SummaryMetadata()
        metadata.plugin_data.plugin_name = "graph_keras_model"
        metadata.plugin_data.content = b"1"
        tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[content])
        value = summary_pb2.Summary.Value(tag="keras", metadata=metadata, tensor=tensor)
        self._write(when, summary=summary_pb2.Summary(value=[value]))

    def flush(self) -> None:
        """Let readers see what was written."""
        self._records.flush()

    def close(self) -> None:
        """End the file."""
        self._records.close()

    def _write(self, when: float, **content: Any) -> None:
        self._records.write(self._event(wall_time=when, **content).SerializeToString())


def is_event_file(name: str) -> bool:
    """Whether TensorBoard would read a file of this name."""
    return "tfevents" in name


def read_scalars(files: Iterable[tuple[str, bytes]]) -> pd.DataFrame:
    """Return the scalars in event files, also in one that is still being written.

    Parameters
    ----------
    files : iterable of (name, content)

    Returns
    -------
    pandas.DataFrame
        One row per value, in the files' order; `COLUMNS`.
    """
    import pandas as pd
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    rows = []
    with temporary.directory("tos-events-") as folder:
        for name, content in files:
            path = Path(folder, name)
            path.write_bytes(content)
            for event in EventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    # The loader has made tensors of simple values, and says what they were.
                    if value.metadata.plugin_data.plugin_name == "scalars":
                        number = float(make_ndarray(value.tensor))
                        rows.append((value.tag, event.step, event.wall_time, number))
    return pd.DataFrame(rows, columns=list(COLUMNS))
