"""What happens in a run, one record of its journal at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tipstaff import value
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.envelope import Envelope, envelope_of
from tipstaff.errors import ProtocolError


class EventType(IntEnum):
    """What happened."""

    STAGE_STARTED = 0
    STAGE_COMPLETED = 1
    STAGE_FAILED = 2
    PIPELINE_COMPLETED = 3
    INTERRUPT_RAISED = 4
    CHECKPOINT_CREATED = 5
    BOUNDS_EXCEEDED = 6
    STAGE_RETRYING = 7
    STAGE_SKIPPED = 8
    TRANSITION = 9
    INTERRUPT_RESOLVED = 10
    ROLLED_BACK = 11
    PIPELINE_STARTED = 12
    BOUND_EXTENDED = 13
    RUN_QUEUED = 14
    TEXT_DELTA = 15
    TOOL_PROGRESS = 16


@dataclass(frozen=True)
class ExecutionEvent:
    """One event. The last of a stream is ``final`` and has the Envelope."""

    type: EventType | int
    """An int where this client does not know the type."""
    stage: str
    timestamp_ms: int
    payload: dict[str, Any]
    seq: int
    run_id: str
    final: bool
    envelope: Envelope | None
    transient: bool = False
    """It was told and is no record: its seq is that of the record before it."""


def event_of(message: pb.ExecutionEvent) -> ExecutionEvent:
    """The event that a message tells."""
    if message.seq == 0:
        raise ProtocolError("the server sent an event without a place in the journal")
    kind: EventType | int = int(message.type)
    if kind in EventType._value2member_map_:
        kind = EventType(kind)
    return ExecutionEvent(
        type=kind,
        stage=message.stage,
        timestamp_ms=message.timestamp_ms,
        payload=value.decode(message.payload) if message.payload else {},
        seq=message.seq,
        run_id=message.run_id,
        final=message.final,
        envelope=envelope_of(message.envelope) if message.HasField("envelope") else None,
        transient=message.transient,
    )
