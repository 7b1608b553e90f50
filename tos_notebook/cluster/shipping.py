"""What runs on executors, and how it comes to those on which this package is not installed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..common import temporary
from .remote.context import RemoteContext

if TYPE_CHECKING:
    from pyspark import SparkContext

SHIPPED = (
    *("_version", "readable", "errors", "common", "layout"),
    *("wire", "chaos", "codecs", "archive", "blocks"),
    *("transport", "reduction", "runtime", "cluster", "nodes", "data", "inference", "worker"),
    # The worker's side of each strategy.
    *(f"strategies.ps.{each}" for each in ("exchange", "replica", "residual", "updates")),
    *(f"strategies.ps.rows.{each}" for each in ("changes", "exchange", "payload", "replica")),
    # Shards of the parameters, which merge.
    *(f"strategies.ps.{each}" for each in ("center", "non_finite", "peer_replica", "push")),
    *("strategies.ps.rules", "strategies.ps.stripes", "strategies.ps.hogwild.exchange"),
    *(f"strategies.ps.rows.{each}" for each in ("center", "peer_replica", "stamps", "update")),
    *(f"strategies.ps.shards.{each}" for each in ("center", "exchange", "link", "maker", "parcel")),
    *(f"strategies.ps.shards.{each}" for each in ("peer", "rows", "service", "slices", "staging")),
    *("strategies.ps.shards.traffic", "strategies.ps.shards.writing"),
    *(f"strategies.ps.served.{each}" for each in ("client", "orders", "peer", "saved", "shard")),
    "strategies.ps.served.store",
    *(f"strategies.allreduce.{each}" for each in ("averaging", "mean", "milestone", "pace")),
    *(f"strategies.allreduce.{each}" for each in ("awaited", "coding", "mesh_exchange", "outer")),
    *("strategies.allreduce.peers", "strategies.treeaggregate.iteration"),
    "strategies.tensorflow.exchange",
    # The rules that workers and shards apply, told by their names.
    *("persist.described", "persist.values", "combiners"),
    # What shards write of a checkpoint.
    *("persist.parts", "persist.sealed"),
    # What programs written for TensorOnSpark hand to Spark.
    *("tensorspark.mnist", "tensorspark.partitioner"),
    # What programs written for TensorFlowOnSpark call there.
    *(f"tensorflowonspark.{each}" for each in ("compat", "dfutil", "gpu_info", "keras_fit")),
    *(f"tensorflowonspark.{each}" for each in ("legacy_keras", "marker", "namespace")),
    *(f"tensorflowonspark.{each}" for each in ("reservation", "scoring", "util")),
    *(f"tensorflowonspark.{each}" for each in ("TFCluster", "TFManager", "TFNode", "TFParallel")),
    "tensorflowonspark.TFSparkNode",
)
"""Packages and modules that executors load, in their order. They import each other only.

A function or class that is handed to Spark belongs to one of them: Spark's pickle names its module.
"""

_ROOT = Path(__file__).parents[1]

_ARCHIVE = f"{_ROOT.name}.zip"


def sources() -> list[Path]:
    """Return the files of what is shipped, with the ``__init__`` of each package around it."""
    found: set[Path] = set()
    for name in SHIPPED:
        path = _ROOT.joinpath(*name.split("."))
        found.update(path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")])
        found.update(folder / "__init__.py" for folder in path.parents[: name.count(".") + 1])
    return sorted(found)


def ship_package(sc: SparkContext | RemoteContext) -> None:
    """Send executors what they need of this package, once for each context."""
    if isinstance(sc, RemoteContext):
        if not sc.shipped:
            sc.shipped = True
            with temporary.directory("tos-package-") as folder:
                sc.add_package(_zipped(Path(folder, _ARCHIVE)))
    elif not any(Path(path).name == _ARCHIVE for path in sc._python_includes):
        # Executors fetch it whenever they start: it has to last as long as the context.
        sc.addPyFile(str(_zipped(Path(sc._temp_dir, _ARCHIVE))))


def _zipped(archive: Path) -> Path:
    """Write what is shipped; return where it is."""
    with zipfile.ZipFile(archive, "w") as zipped:
        for source in sources():
            zipped.write(source, source.relative_to(_ROOT.parent))
    return archive
