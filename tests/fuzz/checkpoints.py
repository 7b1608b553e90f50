"""Mutated checkpoint files: every one that differs must be refused, and nothing else may happen.

Files of several runs are cut off, extended, spliced, and changed in bits, bytes and words, by a
seeded random generator. Half of them get right seals again afterwards, as a file has that a
mistaken program, or an enemy, wrote: those need not be refused, but must be read or refused without
any other error.

    python -m tests.fuzz.checkpoints [--files 100000] [--seed 0]
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import struct
from collections import Counter
from time import perf_counter
from typing import Any

import numpy as np

from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.combiners import Clip, Combiner, FedAdam, FedAvg, GapAware, Median
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.coordination.ledger import Ledger
from tos_notebook.coordination.settings import Settings
from tos_notebook.coordination.snapshots import Progress, RunPosition, Snapshot
from tos_notebook.errors import CheckpointError
from tos_notebook.events import MilestoneCommitted, WorkerJoined
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.persist.described import describe
from tos_notebook.persist.sealed import decode, encode, read_summary
from tos_notebook.strategies import STRATEGIES, ParameterServer
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Push
from tos_notebook.strategies.ps.settings import ServerSettings, settings_in
from tos_notebook.training.checkpoint.contents import Checkpoint, Origin, from_sealed, to_parts
from tos_notebook.training.checkpoint.event_log import columns, events
from tos_notebook.training.options import RunOptions, SessionOptions

HEADER = struct.Struct("<8sIIQQ")
SEAL = 32

LAYOUT = Layout([ParameterSpec("W", (7, 3), "float32"), ParameterSpec("b", (3,), "float64")])

COMBINERS: tuple[Combiner, ...] = (
    FedAvg(),
    GapAware(),
    Clip(9.0, then=FedAdam()),
    Median(k=3, then=FedAdam(k=2)),
)


def checkpoint(combiner: Combiner, pushes: int) -> bytes:
    """Return a checkpoint file of a run of a few pushes."""
    random = np.random.default_rng(pushes)
    store = Center(LAYOUT, LAYOUT.pack([np.zeros((7, 3), "f4"), np.zeros(3)]), combiner)
    ledger = Ledger(2)
    for partition in range(2):
        ledger.begin(partition, partition, 0)
    for sequence in range(pushes):
        update = LAYOUT.pack([random.standard_normal((7, 3)).astype("f4"), random.random(3)])
        store.merge(update, Push(sequence % 2, store.version, 1, 9, 2))
        ledger.admit(0, sequence % 2, sequence % 2, sequence // 2, 1)
    origin = Origin(
        "run-1", SessionOptions(batch_size=9), RunOptions(3, checkpoint_every="30s"),
        describe(ParameterServer(store.stripe_bytes), STRATEGIES), 2,
        (("float32", (7,)), ("int64", ())), 100, True, "0" * 32, 0.0,
    )  # fmt: skip
    progress = Progress(
        ledger.to_json(), store.snapshot(), {0: 90}, {0: 50},
        RunPosition(0, False, DataLayout(2, RandomPartitioner(2), 0)),
    )  # fmt: skip
    snapshot = Snapshot(progress, Settings(ServerSettings(combiner), 1), "running", 0.0)
    value, arrays = to_parts(origin, snapshot, (4, RandomPartitioner(4)), ("history-00000001.tos",))
    return encode({"run": "run-1", "state": "running", "loss": 0.5}, value, arrays)


def history() -> bytes:
    """Return a file of events."""
    joined = WorkerJoined(1.0, 0, 0, "0", "here", 0, 0)
    milestones = [
        MilestoneCommitted(
            float(i),
            0,
            0,
            "0",
            "here",
            0,
            i,
            1,
            1,
            9,
            0.5,
            0,
            i + 1,
            0.1,
            0.0,
            0.1,
            8,
            8,
            {"acc": 1.0},
        )
        for i in range(5)
    ]
    return encode({"events": 6}, *columns([joined, *milestones]))


def mutate(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """Return a file with one to four kinds of damage."""
    result = bytearray(data)
    for _ in range(int(random.integers(1, 5))):
        at = int(random.integers(0, max(1, len(result))))
        kind = int(random.integers(0, 8))
        if kind == 0 and result:
            result[at % len(result)] ^= 1 << int(random.integers(0, 8))
        elif kind == 1 and result:
            result[at % len(result)] = int(random.integers(0, 256))
        elif kind == 2:
            del result[at:]
        elif kind == 3:
            result[at:at] = random.bytes(int(random.integers(1, 40)))
        elif kind == 4:
            del result[at : at + int(random.integers(1, 40))]
        elif kind == 5:
            width = int(random.integers(0, 200))
            result[at : at + width] = other[at : at + width]
        elif kind == 6:
            word = struct.pack("<Q", int(random.choice([0, 1, 2**31, 2**32 - 1, 2**63])))
            result[at : at + len(word)] = word
        else:
            # A number of the JSON parts, where most of what is believed stands.
            digits = [i for i in range(HEADER.size, len(result)) if 48 <= result[i] < 58][:2000]
            if digits:
                result[digits[at % len(digits)]] = int(random.choice(list(b'0129-"[]{}.e')))
    return bytes(result)


def resealed(data: bytes) -> bytes:
    """Return a file with its lengths and seals put right, as far as there is anything to put."""
    if len(data) < HEADER.size + 2 * SEAL:
        return data
    magic, version, head, state, _ = HEADER.unpack_from(data)
    room = len(data) - HEADER.size - 2 * SEAL
    head = min(head, room)
    state = min(state, room - head)
    start = HEADER.size + head
    result = HEADER.pack(magic, version, head, state, room - head - state)
    result += data[HEADER.size : start]
    result += hashlib.sha256(result).digest() + data[start + SEAL : len(data) - SEAL]
    return result + hashlib.sha256(result).digest()


def read(data: bytes) -> Any:
    """Read a file as far as it goes: its summary, then as a checkpoint, or as events."""
    read_summary(data, "file")
    sealed = decode(data, "file")
    if "events" in sealed.summary:
        return events(sealed, "file")
    found: Checkpoint = from_sealed(sealed, "file")
    settings = found.settings_with()
    store = Center(LAYOUT, LAYOUT.allocate(), settings_in(settings).combiner)
    store.restore(found.progress.copied)
    Ledger.from_json(found.progress.ledger)
    return found


def fuzz(files: int, seed: int) -> Counter[str]:
    """Read mutated files; return how many were refused, and how many were read.

    Raises
    ------
    AssertionError
        A file that differs from the one it was made of was read, with its old seals.
    Exception
        Any other than a CheckpointError.
    """
    random = np.random.default_rng(seed)
    good = [checkpoint(c, n) for c in COMBINERS for n in (0, 1, 5)] + [history()]
    for data in good:
        read(data)
    counts: Counter[str] = Counter()
    for number in range(files):
        data = good[number % len(good)]
        mutant = mutate(data, good[int(random.integers(0, len(good)))], random)
        sealed = bool(number // len(good) % 2)
        if sealed:
            mutant = resealed(mutant)
        word = "resealed" if sealed else "damaged"
        if mutant in good:
            counts["not changed by chance"] += 1
            continue
        try:
            read(mutant)
        except CheckpointError:
            counts[f"{word}, refused"] += 1
        else:
            assert sealed, f"file {number} of seed {seed} was accepted"
            counts[f"{word}, read"] += 1
    return counts


def main() -> None:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzz(1_000, options.seed + 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = perf_counter()
    counts = fuzz(options.files, options.seed)
    took = perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{options.files:,} mutated files of seed {options.seed} in {took:.0f} s")
    for name, count in sorted(counts.items()):
        print(f"  {name:<24}{count:>10,}")
    print(f"  memory at its highest: {grown / 1024:+.1f} MB over that of the first 1,000 files")


if __name__ == "__main__":
    main()
