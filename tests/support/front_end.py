"""A front end without a browser: what it says to a real kernel, and what it hears."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client import KernelManager

LIMIT = 60.0
"""Seconds for anything that a kernel is asked to do."""


class Client:
    """A front end's half of a kernel's channels.

    Parameters
    ----------
    kernel : jupyter_client.BlockingKernelClient
        With its channels started.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.seen: list[dict[str, Any]] = []

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first message so far or from now on that is wanted."""
        for message in self.seen:
            if wanted(message):
                return message
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            try:
                message = self._kernel.get_iopub_msg(timeout=end - time.monotonic())
            except queue.Empty:
                break
            self.seen.append(message)
            if wanted(message):
                return message
        raise AssertionError(f"It did not come; seen: {[m['msg_type'] for m in self.seen]}")

    def start(self, code: str) -> str:
        request: str = self._kernel.execute(code)
        return request

    def idle(self, request: str) -> None:
        self.until(
            lambda m: (
                m["msg_type"] == "status"
                and m["content"]["execution_state"] == "idle"
                and m["parent_header"].get("msg_id") == request
            )
        )

    def run(self, code: str) -> str:
        """Execute a cell to its end; return its message's id."""
        request = self.start(code)
        self.idle(request)
        errors = [m["content"]["traceback"] for m in self.of(request, "error")]
        assert not errors, "\n".join(errors[0])
        return request

    def of(self, request: str, kind: str) -> list[dict[str, Any]]:
        return [
            m
            for m in self.seen
            if m["parent_header"].get("msg_id") == request and m["msg_type"] == kind
        ]

    def subshell(self) -> str:
        message = self._kernel.session.msg("create_subshell_request")
        self._kernel.control_channel.send(message)
        reply = self._kernel.get_control_msg(timeout=LIMIT)
        return str(reply["content"]["subshell_id"])

    def send(self, comm: str, content: dict[str, Any], subshell: str) -> None:
        """Send a widget's custom message."""
        self.say(comm, {"method": "custom", "content": content}, subshell)

    def open_comm(self, comm: str, target: str, data: dict[str, Any], subshell: str) -> None:
        content = {"comm_id": comm, "target_name": target, "data": data}
        self._to_shell("comm_open", content, subshell)

    def say(self, comm: str, data: dict[str, Any], subshell: str) -> None:
        self._to_shell("comm_msg", {"comm_id": comm, "data": data}, subshell)

    def close_comm(self, comm: str, subshell: str | None = None) -> None:
        self._to_shell("comm_close", {"comm_id": comm, "data": {}}, subshell)

    def _to_shell(self, kind: str, content: dict[str, Any], subshell: str | None) -> None:
        message = self._kernel.session.msg(kind, content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._kernel.shell_channel.send(message)

    def custom(self, comm: str, kind: str, **fields: Any) -> dict[str, Any]:
        """Return the first custom message of a kind on a comm, with these fields."""
        wanted = fields | {"type": kind}
        found = self.until(lambda m: wanted.items() <= _content(m, comm).items())
        return _content(found, comm)

    def view(self, request: str) -> tuple[str, str]:
        """Return the ids of the stream and the control comm of the view that a cell opened."""
        states = {
            m["content"]["comm_id"]: m["content"]["data"]["state"]
            for m in self.of(request, "comm_open")
        }
        stream = next(comm for comm, state in states.items() if "control" in state)
        return stream, states[stream]["control"].removeprefix("IPY_MODEL_")


def _content(message: dict[str, Any], comm: str) -> dict[str, Any]:
    """Return what a custom message on a comm says; nothing if it is another message."""
    content = message["content"]
    if message["msg_type"] != "comm_msg" or content["comm_id"] != comm:
        return {}
    said: dict[str, Any] = content["data"].get("content", {})
    return said


@contextmanager
def started_kernel(folder: Path) -> Iterator[Client]:
    """Start a kernel of this Python in a folder; it is gone afterwards."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=LIMIT)
        yield Client(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
