"""MNIST, or anything in its file format, as RDDs.

``train_image_path``, ``train_label_path``, ``test_image_path`` and ``test_label_path`` can be
set to any path or Hadoop URI. Until they are, they point into the directory given to
`set_data_dir`, or else the one that the environment variable ``TOS_MNIST_DIR`` names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..blocks.idx import parse_idx
from ..cluster.files import find_files
from ..common.arrays import Array, Buffer
from ..errors import DataError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    train_image_path: str
    train_label_path: str
    test_image_path: str
    test_label_path: str

ENVIRONMENT = "TOS_MNIST_DIR"

# With a dash as published, with a dot as unpacked by some tools; ``*`` for ``.gz``.
_NAMES = {
    "train_image_path": "train-images?idx3-ubyte*",
    "train_label_path": "train-labels?idx1-ubyte*",
    "test_image_path": "t10k-images?idx3-ubyte*",
    "test_label_path": "t10k-labels?idx1-ubyte*",
}

_KINDS = ("train", "test")
_TEST = re.compile(r"(?<![a-z])(t10k|test)")
_KIND_STRIDE = 1 << 32

_data_dir: str | None = None


def set_data_dir(directory: str | os.PathLike[str]) -> None:
    """Set where the four files are.

    Parameters
    ----------
    directory : str or path-like
        A local directory or a Hadoop URI.
    """
    global _data_dir
    _data_dir = os.fspath(directory)


def __getattr__(name: str) -> str:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    directory = _data_dir or os.environ.get(ENVIRONMENT)
    if not directory:
        raise DataError(
            f"mnist.{name} is not set. Set it, or call mnist.set_data_dir(directory), or set "
            f"the environment variable {ENVIRONMENT}."
        )
    return f"{directory.rstrip('/')}/{_NAMES[name]}"


def extract_images(sc: SparkContext, path: str) -> RDD[tuple[int, Buffer]]:
    """Return the images of IDX files, as (index, pixels).

    Parameters
    ----------
    sc : SparkContext
    path : str
        A file, a directory or a glob, of plain or gzipped files, on any file system. Of a
        directory the label files are left out. The training and the test file may both be
        there: their names tell them apart ("t10k" or "test"), and so do the indices.

    Returns
    -------
    RDD of (int, ndarray of shape (pixels,), uint8)
        Indices count from 0, those of test images from 2 ** 32.

    Raises
    ------
    DataError
        No file, or two of one kind. Within the job: a file is not an IDX file of images.
    """
    return _extract(sc, path, "image", "label", _image_rows)


def extract_labels(
    sc: SparkContext, path: str, num_class: int, one_hot: bool
) -> RDD[tuple[int, Any]]:
    """Return the labels of IDX files, as (index, label), to be joined with the images.

    Parameters
    ----------
    sc : SparkContext
    path : str
        As for `extract_images`; of a directory the image files are left out.
    num_class : int
        Number of classes.
    one_hot : bool
        Whether a label becomes a vector with a one at the class.

    Returns
    -------
    RDD of (int, ndarray of shape (num_class,), float32), or of (int, int)
        The former if `one_hot`; indices as in `extract_images`.

    Raises
    ------
    DataError
        No file, or two of one kind. Within the job: a file is not an IDX file of labels, or has a
        label that is not below `num_class`.
    """
    rows = partial(_label_rows, num_class=num_class, one_hot=one_hot)
    return _extract(sc, path, "label", "image", rows)


def flatten_image_label(
    iterator: Iterable[tuple[int, tuple[Array, Any]]],
) -> Iterator[tuple[npt.NDArray[np.float32], Any]]:
    """Turn what a join of images and labels holds into records.

    Parameters
    ----------
    iterator : iterable of (index, (image, label))
        One partition, for ``mapPartitions``.

    Yields
    ------
    (ndarray of shape (pixels,), float32 in 0..1; label)
        In the order of the index, whatever order a shuffle delivered.
    """
    for _, (image, label) in sorted(iterator, key=itemgetter(0)):
        yield image.reshape(-1).astype(np.float32) / np.float32(255), label


def _extract(
    sc: SparkContext,
    path: str,
    what: str,
    other: str,
    rows: Callable[[Array, str], Iterable[Any]],
) -> RDD[tuple[int, Any]]:
    files = _choose_files(find_files(sc, path), path, what, other)

    def read(file: tuple[str, bytes]) -> Iterator[tuple[int, Any]]:
        name, content = file
        first = _kind(name) * _KIND_STRIDE
        return enumerate(rows(parse_idx(content, name), name), first)

    return sc.binaryFiles(",".join(files), minPartitions=len(files)).flatMap(read)


def _choose_files(found: list[str], path: str, what: str, other: str) -> list[str]:
    names = {uri: _base(uri) for uri in found}
    # A file that was unpacked beside its archive is there twice.
    plain = {name for name in names.values() if not name.endswith(".gz")}
    chosen = [
        uri
        for uri, name in names.items()
        if (len(found) == 1 or other not in name) and name.removesuffix(".gz") not in plain - {name}
    ]
    if not chosen:
        raise DataError(f"No {what} file at {path}: expected IDX files, plain or gzipped.")
    for index, kind in enumerate(_KINDS):
        same = [uri for uri in chosen if _kind(uri) == index]
        if len(same) > 1:
            raise DataError(
                f"Several {kind} {what} files at {path}: {', '.join(same)}. Their images and "
                "labels cannot be paired; extract them one at a time."
            )
    return chosen


def _base(uri: str) -> str:
    return uri.rsplit("/", 1)[-1].lower()


def _kind(uri: str) -> int:
    return int(_TEST.search(_base(uri)) is not None)


def _image_rows(images: Array, name: str) -> Array:
    if images.ndim < 2:
        raise DataError(f"{name}: expected images, got values of shape {images.shape}.")
    return images.reshape(len(images), -1)


def _label_rows(labels: Array, name: str, num_class: int, one_hot: bool) -> Iterable[Any]:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{name}: expected one integer for each image, "
            f"got {labels.dtype} of shape {labels.shape}."
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < num_class:
        raise DataError(
            f"{name}: expected labels in 0..{num_class - 1}, "
            f"got {labels.min()}..{labels.max()}. Give the right num_class."
        )
    return np.eye(num_class, dtype=np.float32)[labels] if one_hot else labels.tolist()
