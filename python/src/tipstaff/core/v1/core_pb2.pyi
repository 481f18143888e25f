import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateEnvelopeRequest(_message.Message):
    __slots__ = ("raw_input", "user_id", "session_id", "request_id", "metadata", "stage_order", "metadata_json", "goals", "pipeline")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RAW_INPUT_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STAGE_ORDER_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    GOALS_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_FIELD_NUMBER: _ClassVar[int]
    raw_input: str
    user_id: str
    session_id: str
    request_id: str
    metadata: _containers.ScalarMap[str, str]
    stage_order: _containers.RepeatedScalarFieldContainer[str]
    metadata_json: bytes
    goals: _containers.RepeatedScalarFieldContainer[str]
    pipeline: PipelineConfig
    def __init__(self, raw_input: _Optional[str] = ..., user_id: _Optional[str] = ..., session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., stage_order: _Optional[_Iterable[str]] = ..., metadata_json: _Optional[bytes] = ..., goals: _Optional[_Iterable[str]] = ..., pipeline: _Optional[_Union[PipelineConfig, _Mapping]] = ...) -> None: ...

class PipelineConfig(_message.Message):
    __slots__ = ("document", "name", "digest")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    name: str
    digest: str
    def __init__(self, document: _Optional[bytes] = ..., name: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("envelope_id", "request_id", "user_id", "session_id", "raw_input", "current_stage", "iteration", "llm_call_count", "agent_hop_count", "terminated", "termination_reason", "terminal_reason", "interrupt_pending", "outputs", "version", "run_id", "thread_id", "metadata_json", "received_at", "created_at", "pipeline", "pipeline_digest", "stage_order", "prior", "epoch", "frontier", "active_stages", "completed_stages", "failed_stages", "skipped_stages", "tool_call_count", "tokens_in", "tokens_out", "cost_usd", "wall_ms", "edge_counts", "visits", "max_iterations", "max_llm_calls", "max_agent_hops", "max_stages", "max_tool_calls", "max_tokens", "max_cost_usd", "max_wall_seconds", "outcome", "completed_at", "interrupts", "goals", "current_stage_number", "rounds", "feedback", "waivers", "errors", "processing_history", "history_total", "state", "condition", "last_seq")
    class OutputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class PriorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class FailedStagesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SkippedStagesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class VisitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ENVELOPE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RAW_INPUT_FIELD_NUMBER: _ClassVar[int]
    CURRENT_STAGE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    LLM_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    AGENT_HOP_COUNT_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_REASON_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_REASON_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_PENDING_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STAGE_ORDER_FIELD_NUMBER: _ClassVar[int]
    PRIOR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_STAGES_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_STAGES_FIELD_NUMBER: _ClassVar[int]
    FAILED_STAGES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_STAGES_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_IN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_OUT_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    EDGE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_AGENT_HOPS_FIELD_NUMBER: _ClassVar[int]
    MAX_STAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_USD_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTS_FIELD_NUMBER: _ClassVar[int]
    GOALS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_STAGE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    WAIVERS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_HISTORY_FIELD_NUMBER: _ClassVar[int]
    HISTORY_TOTAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    envelope_id: str
    request_id: str
    user_id: str
    session_id: str
    raw_input: str
    current_stage: str
    iteration: int
    llm_call_count: int
    agent_hop_count: int
    terminated: bool
    termination_reason: str
    terminal_reason: str
    interrupt_pending: bool
    outputs: _containers.ScalarMap[str, bytes]
    version: int
    run_id: str
    thread_id: str
    metadata_json: bytes
    received_at: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    pipeline: str
    pipeline_digest: str
    stage_order: _containers.RepeatedScalarFieldContainer[str]
    prior: _containers.ScalarMap[str, bytes]
    epoch: int
    frontier: _containers.RepeatedScalarFieldContainer[str]
    active_stages: _containers.RepeatedScalarFieldContainer[str]
    completed_stages: _containers.RepeatedScalarFieldContainer[str]
    failed_stages: _containers.ScalarMap[str, str]
    skipped_stages: _containers.ScalarMap[str, str]
    tool_call_count: int
    tokens_in: int
    tokens_out: int
    cost_usd: int
    wall_ms: int
    edge_counts: _containers.RepeatedCompositeFieldContainer[EdgeCount]
    visits: _containers.ScalarMap[str, int]
    max_iterations: int
    max_llm_calls: int
    max_agent_hops: int
    max_stages: int
    max_tool_calls: int
    max_tokens: int
    max_cost_usd: int
    max_wall_seconds: int
    outcome: str
    completed_at: _timestamp_pb2.Timestamp
    interrupts: _containers.RepeatedCompositeFieldContainer[Interrupt]
    goals: _containers.RepeatedCompositeFieldContainer[Goal]
    current_stage_number: int
    rounds: _containers.RepeatedCompositeFieldContainer[Round]
    feedback: _containers.RepeatedCompositeFieldContainer[Feedback]
    waivers: _containers.RepeatedCompositeFieldContainer[Waiver]
    errors: _containers.RepeatedCompositeFieldContainer[ErrorRecord]
    processing_history: _containers.RepeatedCompositeFieldContainer[ProcessingRecord]
    history_total: int
    state: str
    condition: str
    last_seq: int
    def __init__(self, envelope_id: _Optional[str] = ..., request_id: _Optional[str] = ..., user_id: _Optional[str] = ..., session_id: _Optional[str] = ..., raw_input: _Optional[str] = ..., current_stage: _Optional[str] = ..., iteration: _Optional[int] = ..., llm_call_count: _Optional[int] = ..., agent_hop_count: _Optional[int] = ..., terminated: bool = ..., termination_reason: _Optional[str] = ..., terminal_reason: _Optional[str] = ..., interrupt_pending: bool = ..., outputs: _Optional[_Mapping[str, bytes]] = ..., version: _Optional[int] = ..., run_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., metadata_json: _Optional[bytes] = ..., received_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pipeline: _Optional[str] = ..., pipeline_digest: _Optional[str] = ..., stage_order: _Optional[_Iterable[str]] = ..., prior: _Optional[_Mapping[str, bytes]] = ..., epoch: _Optional[int] = ..., frontier: _Optional[_Iterable[str]] = ..., active_stages: _Optional[_Iterable[str]] = ..., completed_stages: _Optional[_Iterable[str]] = ..., failed_stages: _Optional[_Mapping[str, str]] = ..., skipped_stages: _Optional[_Mapping[str, str]] = ..., tool_call_count: _Optional[int] = ..., tokens_in: _Optional[int] = ..., tokens_out: _Optional[int] = ..., cost_usd: _Optional[int] = ..., wall_ms: _Optional[int] = ..., edge_counts: _Optional[_Iterable[_Union[EdgeCount, _Mapping]]] = ..., visits: _Optional[_Mapping[str, int]] = ..., max_iterations: _Optional[int] = ..., max_llm_calls: _Optional[int] = ..., max_agent_hops: _Optional[int] = ..., max_stages: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_tokens: _Optional[int] = ..., max_cost_usd: _Optional[int] = ..., max_wall_seconds: _Optional[int] = ..., outcome: _Optional[str] = ..., completed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., interrupts: _Optional[_Iterable[_Union[Interrupt, _Mapping]]] = ..., goals: _Optional[_Iterable[_Union[Goal, _Mapping]]] = ..., current_stage_number: _Optional[int] = ..., rounds: _Optional[_Iterable[_Union[Round, _Mapping]]] = ..., feedback: _Optional[_Iterable[_Union[Feedback, _Mapping]]] = ..., waivers: _Optional[_Iterable[_Union[Waiver, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[ErrorRecord, _Mapping]]] = ..., processing_history: _Optional[_Iterable[_Union[ProcessingRecord, _Mapping]]] = ..., history_total: _Optional[int] = ..., state: _Optional[str] = ..., condition: _Optional[str] = ..., last_seq: _Optional[int] = ...) -> None: ...

class EdgeCount(_message.Message):
    __slots__ = ("to", "count")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PASS_FIELD_NUMBER: _ClassVar[int]
    to: str
    count: int
    def __init__(self, to: _Optional[str] = ..., count: _Optional[int] = ..., **kwargs) -> None: ...

class Goal(_message.Message):
    __slots__ = ("name", "status")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    status: str
    def __init__(self, name: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class Round(_message.Message):
    __slots__ = ("number", "satisfied", "summary")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SATISFIED_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    number: int
    satisfied: _containers.RepeatedScalarFieldContainer[str]
    summary: str
    def __init__(self, number: _Optional[int] = ..., satisfied: _Optional[_Iterable[str]] = ..., summary: _Optional[str] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("to", "iteration", "text")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    to: str
    iteration: int
    text: str
    def __init__(self, to: _Optional[str] = ..., iteration: _Optional[int] = ..., text: _Optional[str] = ..., **kwargs) -> None: ...

class Waiver(_message.Message):
    __slots__ = ("stage", "visit", "finding_ids", "reason", "actor")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    FINDING_IDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    stage: str
    visit: int
    finding_ids: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    actor: str
    def __init__(self, stage: _Optional[str] = ..., visit: _Optional[int] = ..., finding_ids: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., actor: _Optional[str] = ...) -> None: ...

class Interrupt(_message.Message):
    __slots__ = ("id", "key", "kind", "stage", "visit", "question", "message", "data", "actions", "expires_at", "open", "response", "shown", "given")
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    key: str
    kind: str
    stage: str
    visit: int
    question: str
    message: str
    data: bytes
    actions: _containers.RepeatedScalarFieldContainer[str]
    expires_at: _timestamp_pb2.Timestamp
    open: bool
    response: InterruptDecision
    shown: Shown
    given: GivenResult
    def __init__(self, id: _Optional[str] = ..., key: _Optional[str] = ..., kind: _Optional[str] = ..., stage: _Optional[str] = ..., visit: _Optional[int] = ..., question: _Optional[str] = ..., message: _Optional[str] = ..., data: _Optional[bytes] = ..., actions: _Optional[_Iterable[str]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., open: bool = ..., response: _Optional[_Union[InterruptDecision, _Mapping]] = ..., shown: _Optional[_Union[Shown, _Mapping]] = ..., given: _Optional[_Union[GivenResult, _Mapping]] = ...) -> None: ...

class GivenResult(_message.Message):
    __slots__ = ("host_id", "output", "control", "error")
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    host_id: str
    output: bytes
    control: bytes
    error: AgentError
    def __init__(self, host_id: _Optional[str] = ..., output: _Optional[bytes] = ..., control: _Optional[bytes] = ..., error: _Optional[_Union[AgentError, _Mapping]] = ...) -> None: ...

class Shown(_message.Message):
    __slots__ = ("lines", "whole", "parts")
    LINES_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedScalarFieldContainer[str]
    whole: bool
    parts: _containers.RepeatedCompositeFieldContainer[ShownPart]
    def __init__(self, lines: _Optional[_Iterable[str]] = ..., whole: bool = ..., parts: _Optional[_Iterable[_Union[ShownPart, _Mapping]]] = ...) -> None: ...

class ShownPart(_message.Message):
    __slots__ = ("name", "text", "bytes", "cut")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    bytes: int
    cut: int
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ..., bytes: _Optional[int] = ..., cut: _Optional[int] = ...) -> None: ...

class InterruptDecision(_message.Message):
    __slots__ = ("interrupt_id", "kind", "action", "approved", "text", "data", "note", "by")
    INTERRUPT_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    interrupt_id: str
    kind: str
    action: str
    approved: bool
    text: str
    data: bytes
    note: str
    by: str
    def __init__(self, interrupt_id: _Optional[str] = ..., kind: _Optional[str] = ..., action: _Optional[str] = ..., approved: bool = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., note: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ErrorRecord(_message.Message):
    __slots__ = ("stage", "visit", "code", "message", "at")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    visit: int
    code: str
    message: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, stage: _Optional[str] = ..., visit: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ProcessingRecord(_message.Message):
    __slots__ = ("agent", "visit", "attempts", "started_at", "completed_at", "duration_ms", "status", "error", "llm_calls", "tool_calls", "tokens_in", "tokens_out", "cost_usd")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_IN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_OUT_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    agent: str
    visit: int
    attempts: int
    started_at: _timestamp_pb2.Timestamp
    completed_at: _timestamp_pb2.Timestamp
    duration_ms: int
    status: str
    error: str
    llm_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: int
    def __init__(self, agent: _Optional[str] = ..., visit: _Optional[int] = ..., attempts: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., completed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration_ms: _Optional[int] = ..., status: _Optional[str] = ..., error: _Optional[str] = ..., llm_calls: _Optional[int] = ..., tool_calls: _Optional[int] = ..., tokens_in: _Optional[int] = ..., tokens_out: _Optional[int] = ..., cost_usd: _Optional[int] = ...) -> None: ...

class BoundsResult(_message.Message):
    __slots__ = ("can_continue", "terminal_reason", "llm_calls_remaining", "agent_hops_remaining", "iterations_remaining", "interrupt_pending", "outcome", "version", "tool_calls_remaining", "tokens_remaining", "cost_usd_remaining", "wall_ms_remaining", "stages_remaining")
    CAN_CONTINUE_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_REASON_FIELD_NUMBER: _ClassVar[int]
    LLM_CALLS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    AGENT_HOPS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_PENDING_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    TOKENS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    COST_USD_REMAINING_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    STAGES_REMAINING_FIELD_NUMBER: _ClassVar[int]
    can_continue: bool
    terminal_reason: str
    llm_calls_remaining: int
    agent_hops_remaining: int
    iterations_remaining: int
    interrupt_pending: bool
    outcome: str
    version: int
    tool_calls_remaining: int
    tokens_remaining: int
    cost_usd_remaining: int
    wall_ms_remaining: int
    stages_remaining: int
    def __init__(self, can_continue: bool = ..., terminal_reason: _Optional[str] = ..., llm_calls_remaining: _Optional[int] = ..., agent_hops_remaining: _Optional[int] = ..., iterations_remaining: _Optional[int] = ..., interrupt_pending: bool = ..., outcome: _Optional[str] = ..., version: _Optional[int] = ..., tool_calls_remaining: _Optional[int] = ..., tokens_remaining: _Optional[int] = ..., cost_usd_remaining: _Optional[int] = ..., wall_ms_remaining: _Optional[int] = ..., stages_remaining: _Optional[int] = ...) -> None: ...

class UpdateEnvelopeRequest(_message.Message):
    __slots__ = ("envelope", "agent_name", "output", "usage", "expected_version", "metadata_json", "remove_outputs")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    REMOVE_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    envelope: Envelope
    agent_name: str
    output: bytes
    usage: Usage
    expected_version: int
    metadata_json: bytes
    remove_outputs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, envelope: _Optional[_Union[Envelope, _Mapping]] = ..., agent_name: _Optional[str] = ..., output: _Optional[bytes] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., expected_version: _Optional[int] = ..., metadata_json: _Optional[bytes] = ..., remove_outputs: _Optional[_Iterable[str]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("llm_calls", "tool_calls", "tokens_in", "tokens_out", "cost_usd", "agent_hops")
    LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_IN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_OUT_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    AGENT_HOPS_FIELD_NUMBER: _ClassVar[int]
    llm_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: int
    agent_hops: int
    def __init__(self, llm_calls: _Optional[int] = ..., tool_calls: _Optional[int] = ..., tokens_in: _Optional[int] = ..., tokens_out: _Optional[int] = ..., cost_usd: _Optional[int] = ..., agent_hops: _Optional[int] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("envelope", "thread_id", "config", "bounds")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    envelope: Envelope
    thread_id: str
    config: PipelineConfig
    bounds: Bounds
    def __init__(self, envelope: _Optional[_Union[Envelope, _Mapping]] = ..., thread_id: _Optional[str] = ..., config: _Optional[_Union[PipelineConfig, _Mapping]] = ..., bounds: _Optional[_Union[Bounds, _Mapping]] = ...) -> None: ...

class Bounds(_message.Message):
    __slots__ = ("max_iterations", "max_llm_calls", "max_agent_hops", "max_stages", "max_tool_calls", "max_tokens", "max_cost_usd", "max_wall_seconds")
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_AGENT_HOPS_FIELD_NUMBER: _ClassVar[int]
    MAX_STAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_USD_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_iterations: int
    max_llm_calls: int
    max_agent_hops: int
    max_stages: int
    max_tool_calls: int
    max_tokens: int
    max_cost_usd: int
    max_wall_seconds: int
    def __init__(self, max_iterations: _Optional[int] = ..., max_llm_calls: _Optional[int] = ..., max_agent_hops: _Optional[int] = ..., max_stages: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_tokens: _Optional[int] = ..., max_cost_usd: _Optional[int] = ..., max_wall_seconds: _Optional[int] = ...) -> None: ...

class ExecutionEvent(_message.Message):
    __slots__ = ("type", "stage", "timestamp_ms", "payload", "seq", "run_id", "final", "envelope", "transient")
    class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STAGE_STARTED: _ClassVar[ExecutionEvent.EventType]
        STAGE_COMPLETED: _ClassVar[ExecutionEvent.EventType]
        STAGE_FAILED: _ClassVar[ExecutionEvent.EventType]
        PIPELINE_COMPLETED: _ClassVar[ExecutionEvent.EventType]
        INTERRUPT_RAISED: _ClassVar[ExecutionEvent.EventType]
        CHECKPOINT_CREATED: _ClassVar[ExecutionEvent.EventType]
        BOUNDS_EXCEEDED: _ClassVar[ExecutionEvent.EventType]
        STAGE_RETRYING: _ClassVar[ExecutionEvent.EventType]
        STAGE_SKIPPED: _ClassVar[ExecutionEvent.EventType]
        TRANSITION: _ClassVar[ExecutionEvent.EventType]
        INTERRUPT_RESOLVED: _ClassVar[ExecutionEvent.EventType]
        ROLLED_BACK: _ClassVar[ExecutionEvent.EventType]
        PIPELINE_STARTED: _ClassVar[ExecutionEvent.EventType]
        BOUND_EXTENDED: _ClassVar[ExecutionEvent.EventType]
        RUN_QUEUED: _ClassVar[ExecutionEvent.EventType]
        TEXT_DELTA: _ClassVar[ExecutionEvent.EventType]
        TOOL_PROGRESS: _ClassVar[ExecutionEvent.EventType]
    STAGE_STARTED: ExecutionEvent.EventType
    STAGE_COMPLETED: ExecutionEvent.EventType
    STAGE_FAILED: ExecutionEvent.EventType
    PIPELINE_COMPLETED: ExecutionEvent.EventType
    INTERRUPT_RAISED: ExecutionEvent.EventType
    CHECKPOINT_CREATED: ExecutionEvent.EventType
    BOUNDS_EXCEEDED: ExecutionEvent.EventType
    STAGE_RETRYING: ExecutionEvent.EventType
    STAGE_SKIPPED: ExecutionEvent.EventType
    TRANSITION: ExecutionEvent.EventType
    INTERRUPT_RESOLVED: ExecutionEvent.EventType
    ROLLED_BACK: ExecutionEvent.EventType
    PIPELINE_STARTED: ExecutionEvent.EventType
    BOUND_EXTENDED: ExecutionEvent.EventType
    RUN_QUEUED: ExecutionEvent.EventType
    TEXT_DELTA: ExecutionEvent.EventType
    TOOL_PROGRESS: ExecutionEvent.EventType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    type: ExecutionEvent.EventType
    stage: str
    timestamp_ms: int
    payload: bytes
    seq: int
    run_id: str
    final: bool
    envelope: Envelope
    transient: bool
    def __init__(self, type: _Optional[_Union[ExecutionEvent.EventType, str]] = ..., stage: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., payload: _Optional[bytes] = ..., seq: _Optional[int] = ..., run_id: _Optional[str] = ..., final: bool = ..., envelope: _Optional[_Union[Envelope, _Mapping]] = ..., transient: bool = ...) -> None: ...

class ExecuteAgentRequest(_message.Message):
    __slots__ = ("envelope", "agent_name", "agent")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    envelope: Envelope
    agent_name: str
    agent: bytes
    def __init__(self, envelope: _Optional[_Union[Envelope, _Mapping]] = ..., agent_name: _Optional[str] = ..., agent: _Optional[bytes] = ...) -> None: ...

class AgentResult(_message.Message):
    __slots__ = ("success", "output", "error", "duration_ms", "llm_calls", "error_code", "run_id", "usage", "envelope", "interrupt")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    success: bool
    output: bytes
    error: str
    duration_ms: int
    llm_calls: int
    error_code: str
    run_id: str
    usage: Usage
    envelope: Envelope
    interrupt: Interrupt
    def __init__(self, success: bool = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., duration_ms: _Optional[int] = ..., llm_calls: _Optional[int] = ..., error_code: _Optional[str] = ..., run_id: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., envelope: _Optional[_Union[Envelope, _Mapping]] = ..., interrupt: _Optional[_Union[Interrupt, _Mapping]] = ...) -> None: ...

class RunRef(_message.Message):
    __slots__ = ("envelope_id", "thread_id", "run_id")
    ENVELOPE_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    envelope_id: str
    thread_id: str
    run_id: str
    def __init__(self, envelope_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class CheckpointRequest(_message.Message):
    __slots__ = ("ref", "label")
    REF_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    label: str
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., label: _Optional[str] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("id", "envelope_id", "run_id", "thread_id", "stage", "turn", "seq", "iteration", "epoch", "parent_id", "created_at", "digest", "automatic", "labels", "size_bytes", "left")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
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
    created_at: _timestamp_pb2.Timestamp
    digest: str
    automatic: bool
    labels: _containers.RepeatedScalarFieldContainer[str]
    size_bytes: int
    left: bool
    def __init__(self, id: _Optional[str] = ..., envelope_id: _Optional[str] = ..., run_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., stage: _Optional[str] = ..., turn: _Optional[int] = ..., seq: _Optional[int] = ..., iteration: _Optional[int] = ..., epoch: _Optional[int] = ..., parent_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., digest: _Optional[str] = ..., automatic: bool = ..., labels: _Optional[_Iterable[str]] = ..., size_bytes: _Optional[int] = ..., left: bool = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("ref", "checkpoint_id", "stage", "outputs", "metadata_json", "bounds", "fork", "new_thread_id")
    class OutputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    REF_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    NEW_THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    checkpoint_id: str
    stage: str
    outputs: _containers.ScalarMap[str, bytes]
    metadata_json: bytes
    bounds: Bounds
    fork: bool
    new_thread_id: str
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., checkpoint_id: _Optional[str] = ..., stage: _Optional[str] = ..., outputs: _Optional[_Mapping[str, bytes]] = ..., metadata_json: _Optional[bytes] = ..., bounds: _Optional[_Union[Bounds, _Mapping]] = ..., fork: bool = ..., new_thread_id: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("ref", "interrupt_id", "response")
    REF_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    interrupt_id: str
    response: InterruptResponse
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., interrupt_id: _Optional[str] = ..., response: _Optional[_Union[InterruptResponse, _Mapping]] = ...) -> None: ...

class InterruptResponse(_message.Message):
    __slots__ = ("text", "approved", "decision", "data", "note")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    text: str
    approved: bool
    decision: str
    data: bytes
    note: str
    def __init__(self, text: _Optional[str] = ..., approved: bool = ..., decision: _Optional[str] = ..., data: _Optional[bytes] = ..., note: _Optional[str] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("ref", "checkpoint_id")
    REF_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    checkpoint_id: str
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., checkpoint_id: _Optional[str] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("ref", "page_size", "page_token")
    REF_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    page_size: int
    page_token: str
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("checkpoints", "next_page_token")
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    next_page_token: str
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListTransitionsRequest(_message.Message):
    __slots__ = ("ref", "page_size", "page_token")
    REF_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    page_size: int
    page_token: str
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTransitionsResponse(_message.Message):
    __slots__ = ("transitions", "next_page_token")
    TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    transitions: _containers.RepeatedCompositeFieldContainer[Transition]
    next_page_token: str
    def __init__(self, transitions: _Optional[_Iterable[_Union[Transition, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Transition(_message.Message):
    __slots__ = ("seq", "to", "reason", "iteration", "epoch", "turn", "timestamp", "rule", "edge_count", "checkpoint", "n", "by", "left", "run_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    EDGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    to: str
    reason: str
    iteration: int
    epoch: int
    turn: int
    timestamp: _timestamp_pb2.Timestamp
    rule: int
    edge_count: int
    checkpoint: str
    n: int
    by: str
    left: str
    run_id: str
    def __init__(self, seq: _Optional[int] = ..., to: _Optional[str] = ..., reason: _Optional[str] = ..., iteration: _Optional[int] = ..., epoch: _Optional[int] = ..., turn: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rule: _Optional[int] = ..., edge_count: _Optional[int] = ..., checkpoint: _Optional[str] = ..., n: _Optional[int] = ..., by: _Optional[str] = ..., left: _Optional[str] = ..., run_id: _Optional[str] = ..., **kwargs) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("ref", "reason")
    REF_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    reason: str
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("ref", "after_seq", "follow", "transients")
    REF_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TRANSIENTS_FIELD_NUMBER: _ClassVar[int]
    ref: RunRef
    after_seq: int
    follow: bool
    transients: bool
    def __init__(self, ref: _Optional[_Union[RunRef, _Mapping]] = ..., after_seq: _Optional[int] = ..., follow: bool = ..., transients: bool = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "status", "thread_id", "project_dir")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_DIR_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    status: _containers.RepeatedScalarFieldContainer[str]
    thread_id: str
    project_dir: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., status: _Optional[_Iterable[str]] = ..., thread_id: _Optional[str] = ..., project_dir: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token", "total")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunSummary]
    next_page_token: str
    total: int
    def __init__(self, runs: _Optional[_Iterable[_Union[RunSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("run_id", "title", "status", "control", "created_at", "ended_at", "tokens", "cost_usd", "parent_run_id", "thread_id", "session_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    title: str
    status: str
    control: str
    created_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    tokens: int
    cost_usd: int
    parent_run_id: str
    thread_id: str
    session_id: str
    def __init__(self, run_id: _Optional[str] = ..., title: _Optional[str] = ..., status: _Optional[str] = ..., control: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tokens: _Optional[int] = ..., cost_usd: _Optional[int] = ..., parent_run_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class ListThreadsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListThreadsResponse(_message.Message):
    __slots__ = ("threads", "next_page_token")
    THREADS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    threads: _containers.RepeatedCompositeFieldContainer[Thread]
    next_page_token: str
    def __init__(self, threads: _Optional[_Iterable[_Union[Thread, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Thread(_message.Message):
    __slots__ = ("thread_id", "runs", "head")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    runs: int
    head: RunSummary
    def __init__(self, thread_id: _Optional[str] = ..., runs: _Optional[int] = ..., head: _Optional[_Union[RunSummary, _Mapping]] = ...) -> None: ...

class ListInterruptsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "kinds")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ...) -> None: ...

class ListInterruptsResponse(_message.Message):
    __slots__ = ("interrupts", "next_page_token", "total", "by_kind")
    class ByKindEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    INTERRUPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    BY_KIND_FIELD_NUMBER: _ClassVar[int]
    interrupts: _containers.RepeatedCompositeFieldContainer[PendingInterrupt]
    next_page_token: str
    total: int
    by_kind: _containers.ScalarMap[str, int]
    def __init__(self, interrupts: _Optional[_Iterable[_Union[PendingInterrupt, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ..., by_kind: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PendingInterrupt(_message.Message):
    __slots__ = ("run_id", "title", "project_dir", "user_id", "status", "control", "control_reason", "interrupt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_DIR_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CONTROL_REASON_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    title: str
    project_dir: str
    user_id: str
    status: str
    control: str
    control_reason: str
    interrupt: Interrupt
    def __init__(self, run_id: _Optional[str] = ..., title: _Optional[str] = ..., project_dir: _Optional[str] = ..., user_id: _Optional[str] = ..., status: _Optional[str] = ..., control: _Optional[str] = ..., control_reason: _Optional[str] = ..., interrupt: _Optional[_Union[Interrupt, _Mapping]] = ...) -> None: ...

class HostMessage(_message.Message):
    __slots__ = ("register", "result", "reserve", "heartbeat", "drain")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    register: Register
    result: Result
    reserve: Reserve
    heartbeat: Heartbeat
    drain: Drain
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., reserve: _Optional[_Union[Reserve, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("registered", "call", "ack", "cancel", "grant", "drain")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    registered: Registered
    call: Call
    ack: Ack
    cancel: Cancel
    grant: Grant
    drain: Drain
    def __init__(self, registered: _Optional[_Union[Registered, _Mapping]] = ..., call: _Optional[_Union[Call, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("host_id", "version", "agents")
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    host_id: str
    version: str
    agents: _containers.RepeatedCompositeFieldContainer[HostedAgent]
    def __init__(self, host_id: _Optional[str] = ..., version: _Optional[str] = ..., agents: _Optional[_Iterable[_Union[HostedAgent, _Mapping]]] = ...) -> None: ...

class HostedAgent(_message.Message):
    __slots__ = ("name", "effect", "concurrency")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    name: str
    effect: str
    concurrency: int
    def __init__(self, name: _Optional[str] = ..., effect: _Optional[str] = ..., concurrency: _Optional[int] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("heartbeat_seconds",)
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    heartbeat_seconds: int
    def __init__(self, heartbeat_seconds: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Call(_message.Message):
    __slots__ = ("call_id", "run_id", "path", "agent", "visit", "attempt", "input", "view", "deadline", "budget", "idempotency_key", "redelivery")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    REDELIVERY_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    run_id: str
    path: str
    agent: str
    visit: int
    attempt: int
    input: bytes
    view: Envelope
    deadline: _timestamp_pb2.Timestamp
    budget: Budget
    idempotency_key: str
    redelivery: bool
    def __init__(self, call_id: _Optional[str] = ..., run_id: _Optional[str] = ..., path: _Optional[str] = ..., agent: _Optional[str] = ..., visit: _Optional[int] = ..., attempt: _Optional[int] = ..., input: _Optional[bytes] = ..., view: _Optional[_Union[Envelope, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., redelivery: bool = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("llm_calls", "tool_calls", "tokens", "cost_usd", "wall_ms")
    LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    llm_calls: int
    tool_calls: int
    tokens: int
    cost_usd: int
    wall_ms: int
    def __init__(self, llm_calls: _Optional[int] = ..., tool_calls: _Optional[int] = ..., tokens: _Optional[int] = ..., cost_usd: _Optional[int] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("call_id", "output", "control", "usage", "error")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output: bytes
    control: bytes
    usage: Usage
    error: AgentError
    def __init__(self, call_id: _Optional[str] = ..., output: _Optional[bytes] = ..., control: _Optional[bytes] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., error: _Optional[_Union[AgentError, _Mapping]] = ...) -> None: ...

class AgentError(_message.Message):
    __slots__ = ("code", "message", "retryable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retryable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retryable: bool = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("call_id", "refused")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    refused: str
    def __init__(self, call_id: _Optional[str] = ..., refused: _Optional[str] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("call_id", "reason")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    reason: str
    def __init__(self, call_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Reserve(_message.Message):
    __slots__ = ("call_id", "llm_calls", "tool_calls", "tokens", "cost", "number")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    llm_calls: int
    tool_calls: int
    tokens: int
    cost: int
    number: int
    def __init__(self, call_id: _Optional[str] = ..., llm_calls: _Optional[int] = ..., tool_calls: _Optional[int] = ..., tokens: _Optional[int] = ..., cost: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("granted", "bound", "call_id", "number")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    bound: str
    call_id: str
    number: int
    def __init__(self, granted: bool = ..., bound: _Optional[str] = ..., call_id: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...
