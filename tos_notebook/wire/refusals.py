"""Errors that cross the wire by name: raised at the server, raised again at the worker."""

from __future__ import annotations

from .. import errors
from ..errors import RemoteProtocolError, TosError
from .messages import Refused

# A fixed table: a peer may choose among these and construct nothing else. Errors whose
# constructors take more than a text travel as their nearest base.
_CLASSES: dict[str, type[TosError]] = {
    cls.__name__: cls
    for cls in (
        errors.TosError,
        errors.ConfigError,
        errors.ConnectError,
        errors.JavaMissing,
        errors.ClusterUnreachable,
        errors.WorkerEnvironment,
        errors.CaptureError,
        errors.UnsupportedProgram,
        errors.ShapeMismatch,
        errors.DataError,
        errors.CombinerError,
        errors.NonFiniteUpdate,
        errors.ProtocolError,
        errors.LocalProtocolError,
        errors.RemoteProtocolError,
        errors.VersionMismatch,
        errors.TransportError,
        errors.ConnectTimeout,
        errors.ConnectionClosed,
        errors.AuthenticationError,
        errors.CheckpointError,
        errors.SessionClosed,
        errors.WaitTimeout,
    )
}

_MAX_TEXT = 32_768
"""Characters; at most six bytes each in JSON, so that a refusal always fits into a body."""


def refusal_of(error: Exception) -> Refused:
    """Return the answer that tells a worker of `error`.

    An error that is not one of this package's is a defect of the server, so its text is
    for the server's log: the worker learns only its class.
    """
    if not isinstance(error, TosError):
        name = type(error).__name__
        return Refused(
            RemoteProtocolError.__name__,
            f"server error: {name} while serving the request. The driver's log has the details.",
        )
    base = next(cls for cls in type(error).__mro__ if _CLASSES.get(cls.__name__) is cls)
    return Refused(base.__name__, str(error)[:_MAX_TEXT])


def error_of(refused: Refused) -> TosError:
    """Return the error that a refusal names, `RemoteProtocolError` for an unknown name."""
    cls = _CLASSES.get(refused.error)
    if cls is None:
        return RemoteProtocolError(f"{refused.error[:80]}: {refused.text}")
    return cls(refused.text)
