"""Where a run has been, and where it can go back to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tipstaff.message import wire


@dataclass(frozen=True)
class Checkpoint:
    """A place to roll back to: the Envelope after a turn's results were merged and
    before they were routed."""

    id: str
    envelope_id: str
    run_id: str
    thread_id: str
    stage: str
    turn: int
    seq: int
    iteration: int
    epoch: int
    parent_id: str
    created_at: datetime | None
    digest: str
    automatic: bool
    labels: list[str]
    size_bytes: int
    left: bool


@dataclass(frozen=True)
class Transition:
    """A step of a run from one stage to another, or the refusal of one."""

    seq: int
    source: str = field(metadata=wire("from"))
    target: str = field(metadata=wire("to"))
    reason: str
    iteration: int
    epoch: int
    turn: int
    timestamp: datetime | None
    rule: int | None
    edge_count: int | None
    checkpoint: str | None
    n: int
    by: str | None
    left: str | None
    run_id: str
