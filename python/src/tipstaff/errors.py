"""What can go wrong, as exceptions.

Every failed call raises a :class:`TipstaffError`: one subclass per gRPC status. The
words in ``reason`` are the server's own codes, which programs may compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError

from tipstaff import status_pb2


@dataclass(frozen=True)
class Violation:
    """One problem of a request or document."""

    field: str
    description: str
    reason: str


class TipstaffError(Exception):
    """Something the server refused or could not do.

    ``code`` is the status (None: it did not come from a call), ``reason`` the server's
    own code for it, such as ``version_stale``, or "" where it gave none, ``details``
    the problems of a request or document, ``run_id`` the run that it is about, or "".
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        reason: str = "",
        details: tuple[Violation, ...] = (),
        run_id: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.run_id = run_id


class Cancelled(TipstaffError):
    """The caller itself gave the call up."""


class UnknownError(TipstaffError):
    """A status without a meaning of its own."""


class InvalidArgument(TipstaffError):
    """A field, answer or document is not valid: ``details`` has every problem."""


class DeadlineExceeded(TipstaffError):
    """The call took longer than its timeout. What it began goes on."""


class NotFound(TipstaffError):
    """There is no such envelope, run, thread, checkpoint, interrupt, agent or pipeline."""


class AlreadyExists(TipstaffError):
    """The request id has other content, or other hosts serve the agent differently."""


class PermissionDenied(TipstaffError):
    """It belongs to somebody else, or the token lacks a scope."""


class ResourceExhausted(TipstaffError):
    """Too large, or too much at once."""


class FailedPrecondition(TipstaffError):
    """The state does not allow it: running, waiting, ended, locked, expired."""


class Aborted(TipstaffError):
    """Somebody was faster: the version is stale, or the question decided otherwise."""


class OutOfRange(TipstaffError):
    """A value beyond what there is."""


class Unimplemented(TipstaffError):
    """The server is older than this client."""


class InternalError(TipstaffError):
    """A fault of the server."""


class ServerUnavailable(TipstaffError):
    """Nobody answers at the address, or the server is about to stop."""


class DataLoss(TipstaffError):
    """The journal is broken."""


class Unauthenticated(TipstaffError):
    """There is no token, or not a known one."""


class BoundsExceeded(TipstaffError):
    """A bound is used up; ``reason`` is the terminal reason."""


class ProtocolError(TipstaffError):
    """The server said something that has no meaning here: it is newer than this client."""


_CLASSES: dict[grpc.StatusCode, type[TipstaffError]] = {
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNKNOWN: UnknownError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.INTERNAL: InternalError,
    grpc.StatusCode.UNAVAILABLE: ServerUnavailable,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
}

_DETAILS_KEY = "grpc-status-details-bin"
_DOMAIN = "tipstaff"


class FailedCall(Protocol):
    """What both kinds of gRPC errors, blocking and asynchronous, tell."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...


def from_call(error: object, *, waited: bool = False) -> TipstaffError:
    """The exception for a gRPC error.

    ``waited``: the caller did nothing but wait for the one answer, so it was not the
    caller who cancelled. A server that notices the deadline a moment before gRPC does
    so here resets the call, which looks like that.
    """
    assert isinstance(error, grpc.RpcError)
    failed: FailedCall = error  # every RpcError that a call raises is one
    code = failed.code()
    if waited and code is grpc.StatusCode.CANCELLED:
        code = grpc.StatusCode.DEADLINE_EXCEEDED
    cls = _CLASSES.get(code, UnknownError)
    reason, run_id, details = _read_details(error)
    return cls(failed.details() or code.name, code=code, reason=reason, details=details, run_id=run_id)


def _read_details(error: object) -> tuple[str, str, tuple[Violation, ...]]:
    trailers = getattr(error, "trailing_metadata", lambda: None)() or ()
    packed = next((value for key, value in trailers if key == _DETAILS_KEY), None)
    reason, run_id, violations = "", "", []
    try:
        status = status_pb2.Status.FromString(packed or b"")
        for detail in status.details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                info = status_pb2.ErrorInfo.FromString(detail.value)
                if info.domain == _DOMAIN:
                    reason, run_id = info.reason, info.metadata.get("run_id", "")
            elif detail.type_url.endswith("/google.rpc.BadRequest"):
                bad = status_pb2.BadRequest.FromString(detail.value)
                violations += [Violation(v.field, v.description, v.reason) for v in bad.field_violations]
    except DecodeError:
        pass  # a proxy's own trailer; status and message still stand
    return reason, run_id, tuple(violations)
