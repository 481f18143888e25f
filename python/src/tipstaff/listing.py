"""Runs, threads and open questions in lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from tipstaff.envelope import InterruptRecord
from tipstaff.message import AMOUNT


@dataclass(frozen=True)
class RunSummary:
    """A run in a list."""

    run_id: str
    title: str
    status: str
    control: str
    created_at: datetime | None
    ended_at: datetime | None
    """None: it has not ended."""
    tokens: int
    cost_usd: Decimal = field(metadata=AMOUNT)
    parent_run_id: str
    thread_id: str
    session_id: str


@dataclass(frozen=True)
class Thread:
    """A line of runs of pipelines, and the last of them."""

    thread_id: str
    runs: int
    head: RunSummary


@dataclass(frozen=True)
class PendingInterrupt:
    """An open question with the run that asks."""

    run_id: str
    title: str
    project_dir: str
    user_id: str
    status: str
    control: str
    control_reason: str
    interrupt: InterruptRecord
