"""Names of a package that load their modules when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def load_lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to str
        The module of each name, relative to the package, such as ``".registry"``.

    Returns
    -------
    callable
        Takes a name and returns what its module has by it. Raises AttributeError for any other
        name.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name], package), name)

    return load
