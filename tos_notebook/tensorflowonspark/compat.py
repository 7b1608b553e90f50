"""What programs call differently from one TensorFlow, or Keras, to the next."""

from __future__ import annotations

from typing import Any

from ..common import temporary
from .keras_fit import patch_keras_fit

__all__ = ["disable_auto_shard", "export_saved_model", "is_gpu_available", "patch_keras_fit"]


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Save a model as a SavedModel with signatures, from all nodes of a cluster at once.

    The nodes read distributed variables together, so all of them have to call this. Those that are
    not the chief save to a temporary folder.

    Parameters
    ----------
    model : keras.Model, or tf.Module
        Of Keras 3, of tf-keras, or a module with its own signatures.
    export_dir : str
        A path that TensorFlow can write.
    is_chief : bool
        Whether this node's copy is the one to keep.
    """
    if is_chief:
        _export(model, export_dir)
        return
    with temporary.directory("tos-export-") as folder:
        _export(model, folder)


def _export(model: Any, folder: str) -> None:
    import tensorflow as tf

    if _is_legacy(model):
        model.save(folder, save_format="tf")
    elif hasattr(model, "export"):
        model.export(folder, verbose=False)
    else:
        tf.saved_model.save(model, folder)


def _is_legacy(model: Any) -> bool:
    return any(cls.__module__.startswith("tf_keras.") for cls in type(model).__mro__)


def disable_auto_shard(options: Any) -> None:
    """Let each worker have all that its dataset yields, such as the rows that Spark feeds to it.

    Parameters
    ----------
    options : tf.data.Options
    """
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Tell whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU")) > 0
