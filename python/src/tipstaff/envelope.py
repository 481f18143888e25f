"""The state of a pipeline run, as the server tells it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from tipstaff import value
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.errors import ProtocolError
from tipstaff.message import AMOUNT, LOCAL, read, wire
from tipstaff.usage import BOUND_REASONS

TERMINAL_REASONS = BOUND_REASONS | {
    "completed",
    "break_requested",
    "llm_failed_fatally",
    "tool_failed_fatally",
    "stage_failed_fatally",
    "policy_violation",
    "gate_denied",
    "deadlock",
    "internal_error",
    "user_cancelled",
    "halted",
    "rolled_back",
}
"""Every way in which a run can end."""

OUTCOMES = frozenset({"completed", "bound_exceeded", "failed", "cancelled"})
"""What the ways in which a run can end amount to."""


@dataclass(frozen=True)
class EdgeCount:
    """How often an edge was taken."""

    source: str = field(metadata=wire("from"))
    target: str = field(metadata=wire("to"))
    count: int
    pass_count: int = field(metadata=wire("pass"))


@dataclass(frozen=True)
class Goal:
    """Something the pipeline is to reach: ``pending`` or ``satisfied``."""

    name: str
    status: str


@dataclass(frozen=True)
class Round:
    """One pass that satisfied some goals while others remained."""

    number: int
    satisfied: list[str]
    summary: str


@dataclass(frozen=True)
class Feedback:
    """What is asked of a stage that runs again."""

    source: str = field(metadata=wire("from"))
    target: str = field(metadata=wire("to"))
    iteration: int
    text: str


@dataclass(frozen=True)
class Waiver:
    """A person's word that findings of a stage may stand."""

    stage: str
    visit: int
    finding_ids: list[str]
    reason: str
    actor: str


@dataclass(frozen=True)
class InterruptDecision:
    """How a question was decided. ``approved`` is None where the question was not one
    of yes or no."""

    interrupt_id: str
    kind: str
    action: str
    approved: bool | None
    text: str
    data: Any
    note: str
    by: str


@dataclass(frozen=True)
class ShownPart:
    """One value of what is shown, under its name. Its text is another's."""

    name: str
    text: str
    bytes: int
    cut: int
    """Bytes that were left out of its middle."""


@dataclass(frozen=True)
class Shown:
    """What a question is about, for the eyes of people: lines that a terminal can print.
    What is not ``whole`` has been cut; ``data`` has all of it."""

    lines: list[str]
    whole: bool
    parts: list[ShownPart]


@dataclass(frozen=True)
class GivenError:
    """Why an agent failed, of a result that came late."""

    code: str
    message: str
    retryable: bool


@dataclass(frozen=True)
class GivenResult:
    """What the host of an agent has brought for a call in doubt since the question was
    asked. The decision ``use_result`` without data takes it."""

    host_id: str
    output: Any
    control: Any
    error: GivenError | None


@dataclass(frozen=True)
class InterruptRecord:
    """A question the run waits on, or has waited on."""

    id: str
    key: str
    kind: str
    stage: str
    visit: int
    question: str
    message: str
    data: Any
    actions: list[str]
    expires_at: datetime | None
    open: bool
    response: InterruptDecision | None
    shown: Shown | None
    given: GivenResult | None


@dataclass(frozen=True)
class ErrorRecord:
    """One failure of a stage."""

    stage: str
    visit: int
    code: str
    message: str
    at: datetime | None


@dataclass(frozen=True)
class ProcessingRecord:
    """One start of a stage, with all its attempts."""

    agent: str
    visit: int
    attempts: int
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int
    status: str
    error: str | None
    llm_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: Decimal = field(metadata=AMOUNT)


@dataclass(frozen=True)
class Changes:
    """What was changed in an Envelope since it was read."""

    outputs: dict[str, bytes]
    remove_outputs: list[str]
    metadata: dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.outputs or self.remove_outputs or self.metadata)


@dataclass
class Envelope:
    """A view of a run's state.

    ``outputs`` and ``metadata`` may be changed; ``Client.update_envelope`` sends what
    was. The server alone counts and decides: nothing else that is changed here has any
    effect.
    """

    envelope_id: str = ""
    request_id: str = ""
    user_id: str = ""
    session_id: str = ""
    run_id: str = ""
    thread_id: str = ""
    version: int = 0

    raw_input: str = ""
    metadata: dict[str, Any] = field(default_factory=dict, metadata=wire("metadata_json"))
    received_at: datetime | None = None
    created_at: datetime | None = None
    pipeline: str = ""
    pipeline_digest: str = ""
    stage_order: list[str] = field(default_factory=list)

    current_stage: str = "start"
    outputs: dict[str, Any] = field(default_factory=dict)
    prior: dict[str, Any] = field(default_factory=dict)
    epoch: int = 1
    frontier: list[str] = field(default_factory=list)
    active_stages: list[str] = field(default_factory=list)
    completed_stages: list[str] = field(default_factory=list)
    failed_stages: dict[str, str] = field(default_factory=dict)
    skipped_stages: dict[str, str] = field(default_factory=dict)

    iteration: int = 0
    llm_call_count: int = 0
    agent_hop_count: int = 0
    tool_call_count: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: Decimal = field(default=Decimal(0), metadata=AMOUNT)
    wall_ms: int = 0
    edge_counts: list[EdgeCount] = field(default_factory=list)
    visits: dict[str, int] = field(default_factory=dict)
    max_iterations: int = 0
    max_llm_calls: int = 0
    max_agent_hops: int = 0
    max_stages: int = 0
    max_tool_calls: int = 0
    max_tokens: int = 0
    max_cost_usd: Decimal = field(default=Decimal(0), metadata=AMOUNT)
    max_wall_seconds: int = 0

    terminated: bool = False
    terminal_reason: str | None = None
    termination_reason: str | None = None
    outcome: str | None = None
    completed_at: datetime | None = None

    interrupts: list[InterruptRecord] = field(default_factory=list)
    interrupt_pending: bool = False

    goals: list[Goal] = field(default_factory=list)
    current_stage_number: int = 1
    rounds: list[Round] = field(default_factory=list)
    feedback: list[Feedback] = field(default_factory=list)
    waivers: list[Waiver] = field(default_factory=list)

    errors: list[ErrorRecord] = field(default_factory=list)
    processing_history: list[ProcessingRecord] = field(default_factory=list)
    history_total: int = 0

    state: str = ""
    condition: str | None = None
    last_seq: int = 0

    _held_outputs: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False, metadata=LOCAL)
    _held_metadata: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False, metadata=LOCAL)

    @property
    def open_interrupts(self) -> list[InterruptRecord]:
        """The questions that the run waits on."""
        return [interrupt for interrupt in self.interrupts if interrupt.open]

    def changes(self) -> Changes:
        """What was changed here and is not saved. A key of the metadata that was deleted
        is sent as None; so a key that is set to None is removed, too."""
        outputs = {key: value.encode(item, f"outputs.{key}") for key, item in self.outputs.items()}
        metadata = {key: value.encode(item, f"metadata.{key}") for key, item in self.metadata.items()}
        changed = {key: self.metadata[key] for key, item in metadata.items() if self._held_metadata.get(key) != item}
        deleted = dict.fromkeys(self._held_metadata.keys() - metadata.keys())
        return Changes(
            outputs={key: item for key, item in outputs.items() if self._held_outputs.get(key) != item},
            remove_outputs=sorted(key for key in self._held_outputs if key not in outputs),
            metadata={**changed, **deleted},
        )

    def become(self, other: Envelope) -> None:
        """Take over the state that a call has brought."""
        for f in fields(self):
            setattr(self, f.name, getattr(other, f.name))


def envelope_of(message: pb.Envelope) -> Envelope:
    """The Envelope that a message tells. A word that is not known is an error: it
    must not pass for a success."""
    envelope = read(Envelope, message)
    _known("terminal_reason", envelope.terminal_reason, TERMINAL_REASONS)
    _known("outcome", envelope.outcome, OUTCOMES)
    if envelope.metadata is None:
        envelope.metadata = {}
    envelope._held_outputs = {key: value.encode(item) for key, item in envelope.outputs.items()}
    envelope._held_metadata = {key: value.encode(item) for key, item in envelope.metadata.items()}
    return envelope


def _known(name: str, word: str | None, words: frozenset[str]) -> None:
    if word is not None and word not in words:
        raise ProtocolError(f"the server says {name} is {word!r}, which has no meaning here")
