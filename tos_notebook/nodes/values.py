"""What rows of an RDD are as bytes: the limits and types that both sides know.

A block of values is described by nested lists that JSON can hold, and by buffers. Values of one
type become one buffer; lists become their lengths and one flat column of their elements. So a
thousand rows of numbers cost a few calls, and the receiver of a block runs no code of the sender.

A value without others in it takes a byte or more, and so does an empty list. A block is at most
``2 * DEEPEST + 2`` times as many values as bytes, and that only where lists of one lie in lists of
one. So a few bytes take little memory.
"""

from __future__ import annotations

import struct
from typing import Any

DEEPEST = 32
"""Levels of lists within lists."""

MOST_VALUES = 1 << 27
"""Values of one block, those within others included."""

KINDS = "biufcSUmM"
"""Of NumPy's types. Objects are none."""

HEAD = struct.Struct(">I")
"""The length of the description, in bytes."""

Description = list[Any]
