"""Tipstaff from Python.

:class:`Client` and :class:`AsyncClient` run pipelines on a Tipstaff server and watch
them; :class:`AgentHost` lets functions of this program serve as their stages.
"""

from tipstaff.agent import AgentResult
from tipstaff.aio import AsyncClient
from tipstaff.call import AsyncCall, Budget, Call, Grant, Interrupt, Result, StageError
from tipstaff.checkpoint import Checkpoint, Transition
from tipstaff.client import Client
from tipstaff.connection import TLS
from tipstaff.envelope import (
    EdgeCount,
    Envelope,
    ErrorRecord,
    Feedback,
    GivenError,
    GivenResult,
    Goal,
    InterruptDecision,
    InterruptRecord,
    ProcessingRecord,
    Round,
    Shown,
    ShownPart,
    Waiver,
)
from tipstaff.errors import (
    Aborted,
    AlreadyExists,
    BoundsExceeded,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ProtocolError,
    ResourceExhausted,
    ServerUnavailable,
    TipstaffError,
    Unauthenticated,
    Unimplemented,
    UnknownError,
    Violation,
)
from tipstaff.event import EventType, ExecutionEvent
from tipstaff.host import AgentHost
from tipstaff.listing import PendingInterrupt, RunSummary, Thread
from tipstaff.usage import Bounds, BoundsResult, Usage

__all__ = [
    "TLS",
    "Aborted",
    "AgentHost",
    "AgentResult",
    "AlreadyExists",
    "AsyncCall",
    "AsyncClient",
    "Bounds",
    "BoundsExceeded",
    "BoundsResult",
    "Budget",
    "Call",
    "Cancelled",
    "Checkpoint",
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "EdgeCount",
    "Envelope",
    "ErrorRecord",
    "EventType",
    "ExecutionEvent",
    "FailedPrecondition",
    "Feedback",
    "GivenError",
    "GivenResult",
    "Goal",
    "Grant",
    "InternalError",
    "Interrupt",
    "InterruptDecision",
    "InterruptRecord",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "PendingInterrupt",
    "PermissionDenied",
    "ProcessingRecord",
    "ProtocolError",
    "ResourceExhausted",
    "Result",
    "Round",
    "RunSummary",
    "ServerUnavailable",
    "Shown",
    "ShownPart",
    "StageError",
    "Thread",
    "TipstaffError",
    "Transition",
    "Unauthenticated",
    "Unimplemented",
    "UnknownError",
    "Usage",
    "Violation",
    "Waiver",
]
