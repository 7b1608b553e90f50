"""Columns of encoded images, and of Spark's image struct, as the pixels that a model takes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ..blocks.block import ColumnSpec
from ..common.arrays import Array, Buffer
from ..errors import DataError

FORMATS = "JPEG, PNG, BMP or GIF"

_JPEG, _PNG, _GIF, _BMP = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a"), b"BM"
"""What they begin with."""

CHANNELS = (1, 3, 4)
"""Gray, RGB, RGB and alpha."""

PIXELS = 1 << 26
"""Of an encoded image at most: a few bytes can say that they are many more."""

SPARKS = {"height", "width", "nChannels", "mode", "data"}
"""The fields of Spark's image struct that say what an image is."""

_EIGHT_BITS = 7
"""OpenCV, whose types Spark has, keeps the depth in the lowest three bits: 0 for uint8."""


_GRAY = np.array([0.2989, 0.587, 0.114], np.float32)
"""How bright red, green and blue are, as TensorFlow has it."""


class _BadImageError(Exception):
    """Says what is wrong with an image."""


def pixels_of(array: Any, spec: ColumnSpec) -> Array | None:
    """Return images, scaled to what is fed; None if any of them is bad.

    Parameters
    ----------
    array : pyarrow.Array
        Of binary, or of Spark's struct.
    spec : ColumnSpec
        Of shape (height, width, channels); float32 from 0 to 255, or uint8.
    """
    rows = np.empty((len(array), *spec.shape), spec.dtype)
    try:
        for row, image in enumerate(_images(array, spec.shape[-1])):
            rows[row] = _scaled(image(), spec)
    except _BadImageError:
        return None
    return rows


def bad_images(array: Any, spec: ColumnSpec) -> dict[int, str]:
    """Return what is wrong, by row."""
    found = {}
    for row, image in enumerate(_images(array, spec.shape[-1])):
        try:
            image()
        except _BadImageError as error:
            found[row] = str(error)
    return found


def _images(array: Any, channels: int) -> Iterator[Any]:
    """Yield what decodes each image: one at a time is in memory."""
    for value in array:
        yield lambda value=value: _with_channels(_decoded(value.as_py(), channels), channels)


def _decoded(value: Any, channels: int) -> Buffer:
    if value is None:
        raise _BadImageError("null")
    return _sparks(value) if isinstance(value, dict) else _encoded(value, channels)


def _sparks(image: dict[str, Any]) -> Buffer:
    """Return the pixels of Spark's struct, which has blue first."""
    if any(image[name] is None for name in SPARKS):
        raise _BadImageError("null")
    height, width, channels = shape = image["height"], image["width"], image["nChannels"]
    if image["mode"] < 0 or image["mode"] & _EIGHT_BITS or channels not in CHANNELS:
        raise _BadImageError(f"an image of OpenCV's type {image['mode']}")
    if min(height, width) < 1 or len(image["data"]) != height * width * channels:
        raise _BadImageError(f"{len(image['data'])} bytes for an image of shape {shape}")
    pixels = np.frombuffer(image["data"], np.uint8).reshape(shape)
    return pixels if channels == 1 else pixels[..., [2, 1, 0, 3][:channels]]


def _encoded(content: bytes, channels: int) -> Buffer:
    tf = _tensorflow()
    is_jpeg = content.startswith(_JPEG)
    try:
        height, width = tf.io.extract_jpeg_shape(content)[:2] if is_jpeg else _size(content)
        if int(height) * int(width) > PIXELS:
            raise _BadImageError(f"an image of {height} x {width} pixels")
        # A JPEG knows gray itself, and may have colors for print.
        kept = min(channels, 3) if is_jpeg else 0
        # One operation: what wraps it takes as long as a small image.
        found = tf.raw_ops.DecodeImage(contents=content, channels=kept, expand_animations=False)
    except (tf.errors.OpError, struct.error):
        raise _BadImageError("a broken image") from None
    pixels: Buffer = found.numpy()
    return pixels


def is_encoded(content: Any) -> bool:
    """Tell whether bytes begin as an encoded image does."""
    return bytes(content[:8]).startswith((_JPEG, _PNG, *_GIF, _BMP))


def _size(content: bytes) -> tuple[int, int]:
    """Return how many pixels an image says that it has."""
    if content.startswith(_PNG):
        width, height = struct.unpack_from(">II", content, 16)
    elif content.startswith(_GIF):
        width, height = struct.unpack_from("<HH", content, 6)
    elif content.startswith(_BMP):
        width, height = struct.unpack_from("<ii", content, 18)
    else:
        raise _BadImageError(f"{len(content)} bytes that are not a {FORMATS} image")
    return abs(height), abs(width)


def _with_channels(pixels: Buffer, channels: int) -> Buffer:
    """Return gray as colors, colors as gray, with or without alpha."""
    colors, alpha = pixels, None
    if pixels.shape[-1] in (2, 4):
        colors, alpha = pixels[..., :-1], pixels[..., -1:]
    if channels == 1 and colors.shape[-1] == 3:
        colors = np.rint(colors.astype(np.float32) @ _GRAY).astype(np.uint8)[..., None]
    elif channels > 1 and colors.shape[-1] == 1:
        colors = np.repeat(colors, 3, -1)
    if channels < 4:
        return colors
    if alpha is None:
        alpha = np.full_like(colors[..., :1], 255)
    return np.concatenate([colors, alpha], -1)


def _scaled(pixels: Buffer, spec: ColumnSpec) -> Array:
    if pixels.shape == spec.shape:
        return pixels
    size = spec.shape[:2]
    scale = _tensorflow().raw_ops.ResizeBilinear
    found: Array = scale(images=pixels[None], size=size, half_pixel_centers=True).numpy()[0]
    return np.rint(found) if spec.dtype == "uint8" else found


@cache
def _tensorflow() -> Any:
    """Return TensorFlow, set up for the task: it may be the process's first to need it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None:
        from ..cluster.gpus import claim_gpus
        from ..runtime.runner import configure_threads

        claim_gpus()
        configure_threads(context.cpus())
    import tensorflow as tf

    return tf


def image_spec(name: str, shape: tuple[int | None, ...] | None, dtype: str | None) -> ColumnSpec:
    """Return what images become for an input.

    Raises
    ------
    DataError
        It is no input of images.
    """
    whole = tuple(n for n in shape or () if n is not None)
    if len(whole) != 3 or whole != shape or whole[-1] not in CHANNELS:
        given = "" if shape is None else f", got an input of shape {shape}".replace("None", "?")
        raise DataError(
            f"Column {name!r} is binary: expected the shape of its raw bytes, such as "
            f"shapes={{{name!r}: (28, 28, 1)}}, or encoded images{given}. Images need an input "
            "of shape (height, width, channels) with 1, 3 or 4 channels. For plain bytes, use an "
            'input of dtype="string".'
        )
    # What becomes fractions where it is scaled.
    return ColumnSpec("uint8" if dtype and "int" in dtype else "float32", whole, name)
