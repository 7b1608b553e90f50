"""Keras 3's ``fit`` under ``MultiWorkerMirroredStrategy``, which it does not manage by itself."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger(__name__)

KNOWN = (3, 12), (3, 15)
"""The oldest and the newest Keras whose ``fit`` is known to need this, and to take it."""


def patch_keras_fit() -> bool:
    """Let models of Keras 3 ``fit`` under `tf.distribute.MultiWorkerMirroredStrategy`.

    Keras fails at two places. To build a model, it averages a distributed batch outside of a graph;
    here it goes by the dataset's specification, and takes no batch of it. And it averages the
    values of metrics over an axis that they do not have; here over the workers. Models without such
    a strategy train as before. Calling it again does nothing.

    Returns
    -------
    bool
        Whether the patch is in force. Other releases of Keras than 3.12 to 3.15 are left alone,
        with a warning.
    """
    import keras
    from keras.src.backend.tensorflow import trainer

    version = tuple(map(int, keras.__version__.split(".")[:2]))
    if not KNOWN[0] <= version <= KNOWN[1]:
        logger.warning(
            "Keras %s is none that patch_keras_fit knows (3.12 to 3.15): its fit is left as it is.",
            keras.__version__,
        )
        return False
    if not getattr(trainer, "_tos_patched", False):
        trainer.TensorFlowTrainer._maybe_symbolic_build = _building(
            trainer.TensorFlowTrainer._maybe_symbolic_build
        )
        trainer.reduce_per_replica = _reducing(trainer.reduce_per_replica)
        trainer._tos_patched = True
    return True


def _of_several_workers(strategy: Any) -> bool:
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and bool(
        strategy.extended._in_multi_worker_mode()
    )


def _building(original: Any) -> Any:
    def build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is None or not _of_several_workers(self._distribute_strategy):
            original(self, iterator=iterator, data_batch=data_batch)
            return
        import tensorflow as tf

        def of_one(spec: Any) -> Any:
            # Of a worker with several devices there is one for each of them, all alike.
            return spec._value_specs[0] if hasattr(spec, "_value_specs") else spec

        specs = tf.nest.map_structure(of_one, iterator._get_iterator().element_spec)
        with self._distribute_strategy.scope():
            self._symbolic_build(data_batch=specs)

    return build


def _reducing(original: Any) -> Any:
    def reduce(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean") or not _of_several_workers(strategy):
            return original(values, strategy, reduction)
        import tensorflow as tf

        return tf.nest.map_structure(
            lambda value: strategy.reduce("MEAN", value, axis=None), values
        )

    return reduce
