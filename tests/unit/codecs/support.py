"""Layouts, updates of random values, and what a codec makes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tos_notebook.codecs import Coder
from tos_notebook.layout import Layout, ParameterSpec

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

WITH_FEEDBACK = (
    *("sign+ef", "topk:0.01+ef", "topk:0.3+ef", "powersgd:1+ef", "powersgd:4+ef"),
    *("int8+ef", "int4+ef", "bf16+ef", "fp16+ef"),
)
WITHOUT_FEEDBACK = ("fp32", "bf16", "fp16", "int8", "int4")
NAMES = (*WITHOUT_FEEDBACK, *WITH_FEEDBACK)

FLOATS = ("float16", "float32", "float64")
DTYPES = (*FLOATS, "int8", "uint16", "int64")

# Scalars, nothing at all, vectors of less, as much and more than a bucket, matrices, a kernel.
SHAPES = ((), (1,), (0, 3), (7,), (3, 5), (512,), (600,), (2, 3, 4), (40, 30), (1, 9), (1025,))


def layout_of(*shapes: tuple[int, ...], dtype: str = "float32") -> Layout:
    return Layout(ParameterSpec(f"p{i}", shape, dtype) for i, shape in enumerate(shapes))


TWO_NN = layout_of((784, 200), (200,), (200, 200), (200,), (200, 10), (10,))

# More than one piece, a piece with more than one run, and an end inside a bucket and a byte.
LARGE = Layout(
    [
        *layout_of((300, 240), (10,), (30, 17), (70_001,)).specs,
        ParameterSpec("wide", (70_003,), "float64"),
        ParameterSpec("short", (70_003,), "float16"),
        ParameterSpec("count", (3,), "int32"),
    ]
)


def layouts(dtypes: tuple[str, ...] = DTYPES) -> st.SearchStrategy[Layout]:
    parameters = st.tuples(st.sampled_from(SHAPES), st.sampled_from(dtypes))
    return st.lists(parameters, min_size=1, max_size=6).map(
        lambda found: Layout(ParameterSpec(f"p{i}", *p) for i, p in enumerate(found))
    )


def update_of(layout: Layout, seed: int = 0, scale: float = 0.1) -> Bytes:
    """Values of very different magnitudes, some of them zero; integers of the whole range."""
    rng = np.random.default_rng(seed)
    buffer = layout.allocate()
    for tensor in layout.tensors(buffer).values():
        if tensor.dtype.kind == "f":
            values = scale * rng.standard_normal(tensor.shape) * rng.exponential(size=tensor.shape)
            tensor[...] = values * (rng.random(tensor.shape) > 0.2)
        else:
            info = np.iinfo(tensor.dtype)
            tensor[...] = rng.integers(info.min, info.max, tensor.shape, tensor.dtype, True)
    return buffer


def updates(dtypes: tuple[str, ...] = DTYPES) -> st.SearchStrategy[tuple[Layout, Bytes]]:
    seeds, scales = st.integers(0, 1000), st.sampled_from([1e-2, 1.0, 100.0])
    return layouts(dtypes).flatmap(
        lambda layout: st.tuples(
            st.just(layout), st.builds(lambda n, s: update_of(layout, n, s), seeds, scales)
        )
    )


class Trip(NamedTuple):
    payload: Bytes
    decoded: Bytes
    residual: Bytes


def trip(coder: Coder, update: Bytes, key: int = 1) -> Trip:
    """Encode and decode an update."""
    residual, decoded = coder.layout.allocate(), coder.layout.allocate()
    payload = coder.encode(update, key, residual).copy()
    coder.decode(payload, decoded)
    return Trip(payload, decoded, residual)


def values(layout: Layout, buffer: Bytes) -> list[Array]:
    return list(layout.tensors(buffer).values())


def floats(layout: Layout, buffer: Bytes) -> npt.NDArray[np.float64]:
    """All floating-point parameters, one behind the other, without padding."""
    found = [t.reshape(-1) for t in values(layout, buffer) if t.dtype.kind == "f"]
    return np.concatenate([np.zeros(0), *found]).astype(np.float64)


def padding(layout: Layout) -> npt.NDArray[np.bool_]:
    """Which bytes of a buffer belong to no parameter."""
    used = layout.allocate()
    for tensor in values(layout, used):
        tensor.view(f"u{tensor.itemsize}")[...] = np.iinfo(f"u{tensor.itemsize}").max
    return used == 0


def one(vector: Array) -> tuple[Layout, Bytes]:
    """A layout of one tensor, and its value as an update."""
    layout = layout_of(vector.shape, dtype=str(vector.dtype))
    return layout, layout.pack([vector])
