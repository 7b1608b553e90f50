"""TFRecord files as RDDs of records, which executors read and write on any Hadoop file system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.calls import java_errors, java_text
from ..cluster.files import hadoop_path
from ..cluster.java import java_classes
from ..cluster.jobs import job_error, spoken
from ..errors import ConfigError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

FORMATS = Path(__file__).with_name("TFRecordFormats.java")

INPUT, OUTPUT = "org.tosnotebook.TFRecordInput", "org.tosnotebook.TFRecordOutput"

CLASSES = {
    "keyClass": "org.apache.hadoop.io.BytesWritable",
    "valueClass": "org.apache.hadoop.io.NullWritable",
}

_BETWEEN_PATHS = re.compile(r",(?![^{]*\})")
"""A comma that is not one of a glob such as ``{a,b}``."""


def read_records(sc: SparkContext, uri: str) -> RDD[tuple[bytearray, None]]:
    """Return the records of TFRecord files, a partition for each file, in the order of the names.

    Parameters
    ----------
    sc : SparkContext
    uri : str
        A file, a folder or a glob, or several with commas between them. Compressed files are known
        by their names (``.gz``, ``.bz2``, ``.zst``).

    Returns
    -------
    RDD of (bytearray, None)
        Lazy, without partitions for empty files. A job that meets a damaged record fails, and names
        file and position; `tos_notebook.cluster.jobs.job_error` makes a `DataError` of that.

    Raises
    ------
    DataError
        There are no such files, or the first record is damaged.
    """
    # Spark looks at the first record.
    with spoken(), java_classes(sc, FORMATS):
        paths = [str(hadoop_path(sc, part).toString()) for part in _BETWEEN_PATHS.split(uri)]
        return sc.newAPIHadoopFile(",".join(paths), INPUT, **CLASSES)


def write_records(records: RDD[tuple[bytearray, None]], folder: str) -> None:
    """Write records as TFRecord files, one for each partition, and wait for the end.

    Spark's own protocol commits them: each partition counts once, whatever is tried again or runs
    twice, and ``_SUCCESS`` is written when all of them are there.

    Parameters
    ----------
    records : RDD of (bytearray, None)
    folder : str
        Of any Hadoop file system; there must be none of this name.

    Raises
    ------
    ConfigError
        There is such a folder.
    TosError
        The job failed.
    """
    sc: Any = records.context
    try:
        path = str(hadoop_path(sc, folder).toString())
        with java_classes(sc, FORMATS):
            records.saveAsNewAPIHadoopFile(path, OUTPUT, **CLASSES)
    except java_errors() as error:
        if re.match(r"Output directory .* already exists", java_text(error)):
            raise ConfigError(
                f"Expected a new folder for TFRecord files, but there is {folder} already. "
                "Choose another, or delete it."
            ) from None
        found = job_error(error)
        raise found from found.__cause__
