"""What small exchanges cost most, in C, where this package was installed with a C compiler."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from types import ModuleType

extension: ModuleType | None = None
"""The module, None where it was not built, or cannot be loaded from a zip file."""

with suppress(ImportError):
    extension = import_module("._exchange", __package__)
