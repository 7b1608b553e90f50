"""A plotly heat map as a small PNG, for a page that runs no script."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

COLUMNS = 200
"""Pixels across at most: neighbors of a long run are left out."""

VIRIDIS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]])
"""Red, green and blue at even distances of plotly's scale of that name."""

MISSING = 140
"""Red, green and blue of what is not a number: a gray that the scale has not."""


def heat_image(trace: Any) -> str:
    """Return a heat map as a data URI, its largest y at the top.

    Parameters
    ----------
    trace : plotly.graph_objects.Heatmap
        With numbers in ascending order as x and y.
    """
    x, z = np.asarray(trace.x, np.float64), np.asarray(trace.z, np.float64)
    places = np.linspace(x[0], x[-1], COLUMNS)
    nearest = np.abs(places[:, None] - x[None, :]).argmin(axis=1)
    known = np.isfinite(z)
    shares = z[::-1, nearest] / (z.max(where=known, initial=0.0) or 1.0)
    scale = np.linspace(0, 1, len(VIRIDIS))
    colors = np.stack([np.interp(shares, scale, channel) for channel in VIRIDIS.T], axis=-1)
    colors[~known[::-1, nearest]] = MISSING
    data = base64.b64encode(_png(colors.round().astype(np.uint8))).decode()
    return f"data:image/png;base64,{data}"


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    height, width, _ = pixels.shape
    # Each row begins with its filter: none.
    rows = np.pad(pixels.reshape(height, 3 * width), ((0, 0), (1, 0)))
    parts = (
        (b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
