"""How one agent that was run by itself came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.envelope import Envelope, InterruptRecord, envelope_of
from tipstaff.message import read
from tipstaff.usage import Usage
from tipstaff import value


@dataclass(frozen=True)
class AgentResult:
    """How one agent's run ended or, with ``interrupt``, what it waits for: answer by
    ``resume(run_id=…)``."""

    success: bool
    output: dict[str, Any]
    error: str | None
    error_code: str | None
    duration_ms: int
    llm_calls: int
    run_id: str
    usage: Usage
    envelope: Envelope
    interrupt: InterruptRecord | None


def agent_result_of(message: pb.AgentResult) -> AgentResult:
    """The result that a message tells."""
    return AgentResult(
        success=message.success,
        output=value.decode(message.output) if message.output else {},
        error=message.error if message.HasField("error") else None,
        error_code=message.error_code if message.HasField("error_code") else None,
        duration_ms=message.duration_ms,
        llm_calls=message.llm_calls,
        run_id=message.run_id,
        usage=read(Usage, message.usage),
        envelope=envelope_of(message.envelope),
        interrupt=read(InterruptRecord, message.interrupt) if message.HasField("interrupt") else None,
    )
