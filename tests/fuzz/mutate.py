"""Frames made wrong, in the ways that wires, bugs and attackers have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random

from tos_notebook.wire.frames import HEADER, HEADER_SIZE, MAGIC

EXTREMES = [
    0,
    1,
    2,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
SNIPPETS = [
    b"null", b"true", b"-1", b"1e999", b"NaN", b"-Infinity", b"0.5", b'""', b"[]", b"{}", b"[[[[",
    b"]", b'"\\ud800"', b'"\x00"', b"\xff\xfe", b"9" * 400, b"[" * 3000, b'{"codec":"int8"}',
    b'"tos-' + b"0" * 32 + b'"', str(2**63).encode(), str(-(2**80)).encode(),
]  # fmt: skip
_TOKEN = re.compile(rb'"[^"]*"|-?[0-9.]+|true|false|null|[\[\]{},:]')

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def split(frame: bytes) -> tuple[list[int], bytes, bytes]:
    """Return a frame's kind, flags and sequence, its body, and its payload."""
    _, version, kind, flags, sequence, body, _ = HEADER.unpack_from(frame)
    end = HEADER_SIZE + body
    return [version, kind, flags, sequence], frame[HEADER_SIZE:end], frame[end:]


def join(fields: Sequence[int], body: bytes, payload: bytes) -> bytes:
    """Return a frame whose lengths are right, whatever is in it."""
    return HEADER.pack(MAGIC, *fields, len(body), len(payload)) + body + payload


def flip(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Flip a few bits anywhere."""
    changed = bytearray(frame)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        position = random.randrange(len(changed) * 8)
        changed[position // 8] ^= 1 << position % 8
    return bytes(changed)


def truncate(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Cut the end off."""
    return frame[: random.randrange(len(frame))]


def edit_length(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Claim another length of body or payload."""
    magic, version, kind, flags, sequence, body, payload = HEADER.unpack_from(frame)
    change = random.choice(EXTREMES) if random.random() < 0.5 else None
    if random.random() < 0.5:
        body = (body + random.randint(-3, 3) if change is None else change) % 2**32
    else:
        payload = (payload + random.randint(-3, 3) if change is None else change) % 2**64
    head = HEADER.pack(magic, version, kind, flags, sequence, body, payload)
    return head + frame[HEADER_SIZE:]


def edit_kind(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Say that it is something else."""
    fields, body, payload = split(frame)
    fields[random.choice((0, 1, 1, 1, 2, 3))] = random.randrange(20)
    return join([f % 256 for f in fields[:3]] + fields[3:], body, payload)


def splice(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Put the begin of one frame before the end of another."""
    other = random.choice(corpus)
    return frame[: random.randrange(len(frame))] + other[random.randrange(len(other)) :]


def graft(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Give a frame another's body or payload, lengths included."""
    fields, body, payload = split(frame)
    _, other_body, other_payload = split(random.choice(corpus))
    if random.random() < 0.5:
        return join(fields, other_body, payload)
    return join(fields, body, other_payload)


def duplicate(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Repeat all of it, or a part."""
    if random.random() < 0.3:
        return frame + frame
    start, end = sorted(random.randrange(len(frame) + 1) for _ in range(2))
    return frame[:end] + frame[start:end] + frame[end:]


def edit_json(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replace, remove or add a token of the body, lengths included."""
    fields, body, payload = split(frame)
    tokens = list(_TOKEN.finditer(body))
    if not tokens:
        return edit_number(random, frame, corpus)
    token = random.choice(tokens)
    start, end = token.span() if random.random() < 0.8 else (token.end(), token.end())
    return join(fields, body[:start] + random.choice((b"", *SNIPPETS)) + body[end:], payload)


def edit_field(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replace a field of a JSON body by another value, which is JSON."""
    fields, body, payload = split(frame)
    try:
        values = json.loads(body)
        values[random.randrange(len(values))] = random.choice(
            [-1, 0, 1, 2**63, 1.5, None, True, "", "go", "x" * 200, [], [1, 2], {}, {"codec": 1}]
        )
        return join(fields, json.dumps(values).encode(), payload)
    except (ValueError, TypeError, KeyError):
        return edit_number(random, frame, corpus)


def edit_number(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Put an extreme number where a packed body may have one, lengths as they were."""
    fields, body, payload = split(frame)
    width = random.choice((1, 2, 4, 8, 8, 8))
    if len(body) < width:
        return flip(random, frame, corpus)
    start = random.randrange(0, len(body) - width + 1, width)
    number = (random.choice(EXTREMES) % 2 ** (8 * width)).to_bytes(width, "big")
    return join(fields, body[:start] + number + body[start + width :], payload)


def edit_payload(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Change the payload, its length as it was."""
    fields, body, payload = split(frame)
    if not payload:
        return edit_number(random, frame, corpus)
    changed = bytearray(payload)
    start = random.randrange(len(changed))
    length = random.choice((1, 2, 4, 8, len(changed)))
    piece = random.choice((b"\x00", b"\xff", b"\x7f", random.randbytes(1))) * length
    changed[start : start + length] = piece
    return join(fields, body, bytes(changed[: len(payload)]).ljust(len(payload), b"\x7f"))


def invent(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Send noise, or a true header before noise."""
    noise = random.randbytes(random.choice((1, 23, 24, 100, 1000)))
    return noise if random.random() < 0.5 else frame[:HEADER_SIZE] + noise


MUTATIONS: tuple[Mutation, ...] = (
    flip, flip, flip, truncate, edit_length, edit_kind, splice, graft, duplicate, edit_json,
    edit_json, edit_field, edit_number, edit_number, edit_payload, invent,
)  # fmt: skip


def mutate(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Return a frame with one or more mistakes in it."""
    changed = random.choice(MUTATIONS)(random, frame, corpus)
    while random.random() < 0.1 and len(changed) > HEADER_SIZE and changed[:4] == MAGIC:
        changed = random.choice((flip, truncate, edit_length))(random, changed, corpus) or b"x"
    return changed
