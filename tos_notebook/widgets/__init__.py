"""The live view of a run in a notebook, and its still picture."""

from .model import RunModel
from .picture import Result
from .start import start
from .view import RunView

__all__ = ["Result", "RunModel", "RunView", "start"]
