"""Live views of runs and clusters in a notebook, and their still pictures; they train nothing."""

from .cluster_picture import ClusterPicture
from .cluster_view import ClusterView, cluster_view
from .model import RunModel, watch
from .picture import Result
from .run_view import RunView, show, view

__all__ = [
    "ClusterPicture",
    "ClusterView",
    "Result",
    "RunModel",
    "RunView",
    "cluster_view",
    "show",
    "view",
    "watch",
]
