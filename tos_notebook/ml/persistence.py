"""Save and load stages: Spark ML's metadata, and a ``.keras`` file beside them."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLWritable

from ..cluster.backend import require_jvm
from ..cluster.storage import Storage
from ..common import temporary
from ..persist.described import describe, rebuild
from ..strategies.registry import STRATEGIES
from .params import STRATEGY

FILE = "model.keras"

MODEL = "model"
"""The parameter that is in the file, and not among the metadata."""


class Stored(MLWritable, MLReadable):
    """A stage with a Keras model, which is saved and loaded with it."""

    @abstractmethod
    def present(self) -> Any:
        """Return the Keras model to save."""

    def write(self) -> Writer:
        """Return what saves this stage to a Hadoop URI, ``write().overwrite().save(uri)``."""
        return Writer(self)

    @classmethod
    def read(cls) -> Reader:
        """Return what loads a stage from where it was saved."""
        return Reader(cls)


class Writer(DefaultParamsWriter):
    """Saves a stage."""

    def save(self, path: str) -> None:
        """Save it at a Hadoop URI.

        Raises
        ------
        ConnectError
            The session is of Spark Connect.
        """
        require_jvm(self.sparkSession, "saving a stage of Spark ML")
        super().save(path)

    def saveImpl(self, path: str) -> None:
        """Write metadata and model; `save` has made room for them."""
        from ..program.export.saving import keras_file

        stage = self.instance
        values = {p.name: value for p, value in stage._paramMap.items() if p.name != MODEL}
        if not isinstance(values.get(STRATEGY, ""), str):
            values[STRATEGY] = describe(values[STRATEGY], STRATEGIES)
        with temporary.directory("tos-ml-") as folder:
            made = Path(folder, FILE)
            keras_file(stage.present(), made)
            DefaultParamsWriter.saveMetadata(stage, path, self.sparkSession, paramMap=values)
            _storage(self.sparkSession, path).write(FILE, made)


class Reader(DefaultParamsReader):
    """Loads a stage."""

    def load(self, path: str) -> Any:
        """Return the stage that was saved at a Hadoop URI.

        Raises
        ------
        CheckpointError
            The folder has no model, or names a strategy that cannot be made.
        CaptureError
            The model cannot be read.
        ConnectError
            The session is of Spark Connect.
        """
        from ..program.keras.serving import read_compiled

        spark = self.sparkSession
        require_jvm(spark, "loading a stage of Spark ML")
        name = f"{self.cls.__module__}.{self.cls.__name__}"
        metadata = DefaultParamsReader.loadMetadata(path, spark, name)
        with temporary.directory("tos-ml-") as folder:
            file = Path(folder, FILE)
            _storage(spark, path).copy_out(FILE, file)
            stage = self.cls(model=read_compiled(file))
        stage._resetUid(metadata["uid"])
        given = metadata["paramMap"]
        if not isinstance(given.get(STRATEGY, ""), str):
            given[STRATEGY] = rebuild(given[STRATEGY], STRATEGIES)
        DefaultParamsReader.getAndSetParams(stage, metadata)
        return stage


def _storage(spark: Any, path: str) -> Storage:
    """Return the folder where Spark, too, sees it: a bare path is on its default file system."""
    sc = spark.sparkContext
    place = sc._jvm.org.apache.hadoop.fs.Path(path)
    whole = place.getFileSystem(sc._jsc.hadoopConfiguration()).makeQualified(place)
    return Storage(sc, str(whole.toString()))
