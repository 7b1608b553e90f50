"""Call the compiled kernels with whatever fits and does not, for some seconds.

    python -m tests.fuzz.kernels EXTENSION [--seconds 20] [--seed 0]

Made for an extension that was compiled with sanitizers, which end the process at the first read or
write out of bounds and the first undefined operation. Prints how many calls did what.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import struct
from collections import Counter
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any

import numpy as np

from .fast_path import FastPath

SIZES = (0, 1, 7, 8, 9, 511, 512, 513, 1024, 1500, 4099)
BEGINS = b"TOSN\x01\x05\0\0"
"""What a push's frame begins with."""
SPECIAL = (0.0, -0.0, 1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan)
DTYPES = ("float32", "float64", "int32", ">f4", "int8", "uint8", "bool")


def load(path: Path) -> ModuleType:
    """Import an extension from its file."""
    spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Vectors:
    """Makes vectors of every kind, most of them as they should be."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._numbers = np.random.default_rng(seed)

    def make(self, size: int, dtype: str) -> Any:
        """Return a vector of a size and dtype, or of another, or what is none."""
        chance = self.chance.random()
        if chance < 0.02:
            return self.chance.choice([None, 0.5, "text", b"bytes", [1.0]])
        if chance < 0.06:
            size = max(0, size + self.chance.choice([-1, 1, -512, 512]))
        if chance > 0.96:
            dtype = self.chance.choice(DTYPES)
        kind = np.dtype(dtype)
        offset = self.chance.choice([0, 0, 0, 1, 2, 3, 4, 60])
        raw = np.zeros(size * kind.itemsize + offset, np.uint8)
        vector = raw[offset:].view(kind)
        if kind.kind == "f":
            vector[:] = self._numbers.normal(size=size) * 10.0 ** self.chance.randint(-30, 30)
            if size and self.chance.random() < 0.3:
                vector[self.chance.randrange(size)] = self.chance.choice(SPECIAL)
        elif kind.kind in "iu":
            raw[:] = self._numbers.integers(0, 256, len(raw), np.uint8)
        if self.chance.random() < 0.03:
            vector = vector[::2]
        if self.chance.random() < 0.03:
            vector.flags.writeable = False
        return vector


def exchange(module: ModuleType, vectors: Vectors) -> str:
    """Add two vectors, or read a frame that is a push, or nearly; return what became of it."""
    chance = vectors.chance
    if chance.random() < 0.5:
        size, dtype = chance.choice(SIZES), chance.choice(["float32", "float64"])
        divisor = chance.choice([1.0, 3.0, 0.0, 1e300, np.inf, np.nan])
        raised = module.add_delta(vectors.make(size, dtype), vectors.make(size, dtype), divisor)
        return "left" if raised < 0 else "done"
    metrics, payload = chance.choice([0, 1, 3, 256, 300]), bytes(chance.randrange(40))
    counts = [chance.choice([0, 1, 7, 2**40, -1]) for _ in range(6)]
    times = [chance.choice([0.0, 0.5, 1e9, np.nan, -1.0]) for _ in range(5 + metrics)]
    told = metrics if chance.random() < 0.9 else chance.randrange(400)
    body = struct.pack(">6q?5dq16sH", *counts, True, *times[:5], 4, bytes(16), told)
    body += struct.pack(f">{metrics}d", *times[5:])
    lengths = len(body), len(payload)
    if chance.random() < 0.2:
        lengths = chance.choice([(2**32 - 1, 3), (len(body), 2**64 - 1), (0, 0)])
    frame = BEGINS + struct.pack(">IIQ", 9, *lengths) + body + payload
    frame = frame[: chance.choice([len(frame), len(frame), chance.randrange(len(frame))])]
    got = chance.choice([len(frame), len(frame), len(frame) - 3, len(frame) + 1, -1])
    begins = chance.choice([BEGINS, BEGINS, BEGINS, BEGINS[:7]])
    try:
        found = module.read_push(frame, got, begins, 2.0**40)
    except (TypeError, ValueError, BufferError) as error:
        return type(error).__name__
    return "left" if found is None else "done"


def call(module: ModuleType, vectors: Vectors, path: FastPath | None) -> str:
    """Call one kernel; return what became of it."""
    if path is not None:
        return path.act() if vectors.chance.random() < 0.5 else exchange(module, vectors)
    size, family = vectors.chance.choice(SIZES), vectors.chance.choice(["int8", "sign"])
    do = vectors.chance.choice(["encode", "decode", "add", "residual"])
    codes = vectors.make(size if family == "int8" else -(-size // 8), "uint8")
    scales = vectors.make(-(-size // 512), "float32")
    values, others = vectors.make(size, "float32"), vectors.make(size, "float32")
    if do == "encode":
        arguments = [values, vectors.chance.choice([None, others]), scales, codes]
        if family == "int8":
            dither = vectors.chance.choice([None, vectors.make(size, "float32")])
            levels = vectors.chance.choice([127.0, 7.0, 0.0, -1.0, np.nan, 1e30])
            arguments += [dither, levels, vectors.chance.choice([1e-38, 0.0, np.inf])]
    else:
        arguments = [codes, scales, values, *([others] if do == "residual" else [])]
    try:
        getattr(module, f"{do}_{family}")(*arguments)
    except (TypeError, ValueError, BufferError) as error:
        return type(error).__name__
    return "done"


def main() -> None:
    """Call kernels until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kernels")
    parser.add_argument("extension", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    module, vectors = load(options.extension), Vectors(options.seed)
    path = FastPath(module, vectors.chance) if hasattr(module, "Path") else None
    found, end = Counter[str](), monotonic() + options.seconds
    while monotonic() < end:
        found[call(module, vectors, path)] += 1
    print(f"seed {options.seed}:", dict(sorted(found.items())))


if __name__ == "__main__":
    main()
