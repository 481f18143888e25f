"""What runs consume, and may."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypedDict

from tipstaff import money
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.errors import BoundsExceeded
from tipstaff.message import AMOUNT

BOUND_REASONS = frozenset(
    {
        "max_iterations_exceeded",
        "edge_limit_exceeded",
        "max_stage_visits_exceeded",
        "max_agent_hops_exceeded",
        "max_llm_calls_exceeded",
        "max_tool_calls_exceeded",
        "max_tokens_exceeded",
        "max_cost_exceeded",
        "deadline_exceeded",
        "max_stages_exceeded",
    }
)
"""The terminal reasons that say that a bound was exceeded."""


class Bounds(TypedDict, total=False):
    """Maxima of a run. An absent one stays as it is."""

    max_iterations: int
    max_llm_calls: int
    max_agent_hops: int
    max_stages: int
    max_tool_calls: int
    max_tokens: int
    max_cost_usd: Decimal | int | str
    max_wall_seconds: int


def bounds_message(bounds: Bounds) -> pb.Bounds:
    """Bounds as they are sent. A name that is none is a ValueError."""
    fields = dict(bounds)
    if "max_cost_usd" in bounds:
        fields["max_cost_usd"] = money.to_nano(bounds["max_cost_usd"])
    return pb.Bounds(**fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Usage:
    """What was consumed. ``agent_hops`` is counted by the server alone."""

    llm_calls: int = 0
    tool_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: Decimal | int | str = field(default=Decimal(0), metadata=AMOUNT)
    agent_hops: int = 0

    def message(self) -> pb.Usage:
        return pb.Usage(
            llm_calls=self.llm_calls,
            tool_calls=self.tool_calls,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_usd=money.to_nano(self.cost_usd),
            agent_hops=self.agent_hops,
        )


@dataclass(frozen=True)
class BoundsResult:
    """Whether a stage could start now, and what is left."""

    can_continue: bool
    terminal_reason: str | None
    """Why not: how the run ended or, if it has not, would end. None also if only a
    question is in its way."""
    llm_calls_remaining: int
    agent_hops_remaining: int
    iterations_remaining: int
    interrupt_pending: bool
    outcome: str | None
    version: int
    tool_calls_remaining: int
    tokens_remaining: int
    cost_usd_remaining: Decimal = field(metadata=AMOUNT)
    wall_ms_remaining: int
    stages_remaining: int

    def raise_if_exceeded(self) -> None:
        """Raise :class:`BoundsExceeded` if a bound is why nothing can start. A run
        that has completed, failed or waits has exceeded none."""
        if self.terminal_reason in BOUND_REASONS:
            raise BoundsExceeded(f"nothing more can start: {self.terminal_reason}", reason=self.terminal_reason or "")
