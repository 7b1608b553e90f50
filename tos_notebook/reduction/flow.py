"""Sending to peers while receiving from one: neither waits for the other, whatever the sizes."""

from __future__ import annotations

from .links import Link, Patience, wait


class _Unsent:
    """What is left of a message."""

    def __init__(self, link: Link, head: bytes, data: memoryview) -> None:
        self.link = link
        self._head = head
        self._data = data

    def advance(self) -> bool:
        """Send what fits now; return whether anything did."""
        link, head = self.link, self._head
        owed = link.owes
        sent = link.send_some(head, self._data)
        self._head, self._data = head[sent:], self._data[max(0, sent - len(head)) :]
        return bool(sent or owed > link.owes)

    @property
    def ended(self) -> bool:
        return not (self.waits or self.link.owes)

    @property
    def waits(self) -> bool:
        """Whether there is something to send, and not only something for the peer to read."""
        return bool(self._head or self._data or self.link.untold)


class Flow:
    """Messages on their way to peers, and buffers that fill with what comes meanwhile.

    Parameters
    ----------
    patience : Patience
        With a peer that makes no progress.

    Attributes
    ----------
    sending : list
        What is left of messages; false if nothing is.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self.sending: list[_Unsent] = []

    def send(self, link: Link, head: bytes, data: memoryview) -> None:
        """Begin to send; what does not fit now is sent by the other calls.

        Parameters
        ----------
        link : Link
            On which nothing else is under way.
        head, data : bytes, memoryview
            Must not change before `finish`.
        """
        sent = link.send_some(head, data)
        if sent < len(head) + len(data) or link.owes:
            rest = data[max(0, sent - len(head)) :]
            self.sending.append(_Unsent(link, head[sent:], rest))

    def fill(self, link: Link, target: memoryview) -> None:
        """Fill a buffer with what comes from a peer.

        Parameters
        ----------
        link : Link
            To the peer.
        target : memoryview of bytes
            Writable.
        """
        while any(unsent.waits for unsent in self.sending):
            moved = self._advance()
            got = link.receive_some(target)
            target = target[got:]
            if not target:
                return
            if not (got or moved):
                wait((link,), [unsent.link for unsent in self.sending], self._patience)
        link.receive(target)

    def finish(self) -> None:
        """Send all that is left."""
        while self.sending:
            if not self._advance():
                wait((), [unsent.link for unsent in self.sending], self._patience)

    def _advance(self) -> bool:
        """Send of each message what fits now; return whether anything was sent or has ended."""
        moved = False
        for unsent in self.sending:
            moved |= unsent.advance()
        left = [unsent for unsent in self.sending if not unsent.ended]
        moved |= len(left) < len(self.sending)
        self.sending = left
        return moved
