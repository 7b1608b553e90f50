"""Import TensorFlow without Keras, which an exported program does not need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# Before TensorFlow is imported, which reads it once.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


class _Withhold(MetaPathFinder, Loader):
    """Finds Keras, but does not load it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "keras":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        raise ImportError("Keras is not loaded together with TensorFlow here.")


@contextmanager
def without_keras() -> Iterator[None]:
    """Let TensorFlow's import leave Keras out, while the context is open.

    TensorFlow loads it for its registries, and continues if it is missing: that is a third of the
    import, and 150 MB, in every worker's process. ``tf.keras`` and ``import keras`` load it
    afterwards as ever.
    """
    finder = _Withhold()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
