"""What a check raises in any thread, told so that its cause is found."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path

from ..common.tracebacks import PACKAGE, is_users
from ..errors import ConnectTimeout, WaitTimeout

_STRATEGIES = f"{PACKAGE}strategies/"


def fault(who: str, error: BaseException) -> Exception:
    """Return the failure of a check that an error explains; the error is its cause."""
    kind = WaitTimeout if isinstance(error, WaitTimeout | ConnectTimeout) else AssertionError
    found = kind(f"{who} {described(error)}")
    found.__cause__ = error
    return found


def described(error: BaseException) -> str:
    """Return an error's class and text, and where in the strategy it was raised."""
    place = place_of(traceback.extract_tb(error.__traceback__))
    return f"{type(error).__name__}: {error}{place and f' (at {place})'}"


def place_of(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the innermost of frames that is a strategy's; empty if none is."""
    own = (f for f in frames if is_users(f.filename) or f.filename.startswith(_STRATEGIES))
    places = [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in own]
    return places[-1] if places else ""
