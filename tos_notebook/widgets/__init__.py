"""The live view of a run in a notebook, and its still picture; it trains nothing."""

from .model import RunModel, watch
from .picture import Result
from .run_view import RunView, view

__all__ = ["Result", "RunModel", "RunView", "view", "watch"]
