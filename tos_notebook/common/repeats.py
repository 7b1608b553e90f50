"""When to say again what was said before."""

from __future__ import annotations

MOST = 100
"""Texts that are remembered; beyond, all are forgotten."""


class Repeats:
    """Lets a text through at once if it is new, and then ever more rarely. Not thread-safe.

    Parameters
    ----------
    first : float
        Seconds until a text may be said for the second time; from then on, twice as long each time.
    """

    def __init__(self, first: float) -> None:
        self._first = first
        # By text: from when on it may be said again, and how long it was silent before.
        self._said: dict[str, tuple[float, float]] = {}

    def due(self, text: str, now: float) -> bool:
        """Return whether to say a text, and take it for said then.

        Parameters
        ----------
        text : str
            What tells it from others.
        now : float
            Seconds.
        """
        again, pause = self._said.get(text, (now, self._first / 2))
        if now < again:
            return False
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[text] = now + 2 * pause, 2 * pause
        return True
