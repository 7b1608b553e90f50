"""Texts that come from elsewhere and would do harm if a door showed them as they are."""

from __future__ import annotations

LONG = "n" * 10_000

TEXTS = {
    "turned": "rtl\u202egpj.\u2066x\u2069 \u061cy\u200f",
    "terminal": "\x1b[2J\x1b]0;title\x07 bell",
    "control": "a\x00b\x08c",
    "surrogate": "file \udce9.csv",
    "lines": "one\ntwo\u2028three\rfour",
    "script": "</script><script>hit()</script>",
    "image": "\"><img src=x onerror='hit()'>",
    "link": "[x](javascript:hit()) <javascript:hit()> <a href='javascript:hit()'>y</a>",
    "markdown": "a|b `c` *d* _e_ ~~f~~ $g$ \\",
    "long": LONG,
}
"""By what is wrong with them."""
