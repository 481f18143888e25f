"""The requests that the methods of both clients send.

Whoever looks for what a method means finds it here; the clients only send and wait.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from tipstaff import value
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.envelope import Envelope
from tipstaff.usage import Bounds, Usage, bounds_message

PipelineLike = Union[str, bytes, "os.PathLike[str]", Mapping[str, Any]]
"""A pipeline: its name at the server or its digest (str), its text (bytes, or a str of
several lines), its file (a path), or the document itself (a mapping)."""


def create_envelope(
    raw_input: str,
    user_id: str,
    session_id: str,
    request_id: str | None,
    metadata: Mapping[str, Any] | None,
    stage_order: Sequence[str] | None,
    pipeline: PipelineLike | None,
    goals: Sequence[str] | None,
) -> pb.CreateEnvelopeRequest:
    return pb.CreateEnvelopeRequest(
        raw_input=raw_input,
        user_id=user_id,
        session_id=session_id,
        request_id=request_id,
        metadata_json=_json("metadata", metadata),
        stage_order=stage_order,
        goals=goals,
        pipeline=_pipeline(pipeline),
    )


def bounds_of(envelope: Envelope | str) -> pb.Envelope:
    """The server answers from what it holds, so its name is all that is sent."""
    return pb.Envelope(envelope_id=envelope) if isinstance(envelope, str) else _name(envelope)


def _name(envelope: Envelope, outputs: Mapping[str, bytes] | None = None) -> pb.Envelope:
    """Which Envelope is meant, and whose it is: a token may act for several users."""
    return pb.Envelope(envelope_id=envelope.envelope_id, user_id=envelope.user_id, outputs=outputs)


def update_envelope(
    envelope: Envelope, agent_name: str = "", output: Mapping[str, Any] | None = None, usage: Usage | None = None
) -> pb.UpdateEnvelopeRequest | None:
    """None: there is nothing to save."""
    changes = envelope.changes()
    if not changes and output is None and not agent_name and usage is None:
        return None
    return pb.UpdateEnvelopeRequest(
        envelope=_name(envelope, changes.outputs),
        agent_name=agent_name,
        output=_json("output", output),
        usage=usage.message() if usage else None,
        expected_version=envelope.version,
        metadata_json=_json("metadata", changes.metadata or None),
        remove_outputs=changes.remove_outputs,
    )


def unsaved(envelope: Envelope) -> pb.UpdateEnvelopeRequest | None:
    """What must be saved before the Envelope is executed. One that the server has not
    made yet is made by the execution itself."""
    return update_envelope(envelope) if envelope.envelope_id else None


def execute_pipeline(
    envelope: Envelope, thread_id: str, pipeline: PipelineLike | None, bounds: Bounds | None
) -> pb.ExecuteRequest:
    return pb.ExecuteRequest(
        envelope=_view(envelope),
        thread_id=thread_id,
        config=_pipeline(pipeline),
        bounds=bounds_message(bounds) if bounds else None,
    )


def execute_agent(
    envelope: Envelope, agent_name: str, agent: Mapping[str, Any] | bytes | None
) -> pb.ExecuteAgentRequest:
    return pb.ExecuteAgentRequest(
        envelope=_view(envelope),
        agent_name=agent_name,
        agent=agent if isinstance(agent, bytes) else _json("agent", agent),
    )


def _view(envelope: Envelope) -> pb.Envelope:
    """Without outputs: what was changed here is saved by now."""
    if envelope.envelope_id:
        return _name(envelope)
    return pb.Envelope(
        request_id=envelope.request_id,
        user_id=envelope.user_id,
        session_id=envelope.session_id,
        raw_input=envelope.raw_input,
        metadata_json=value.encode(envelope.metadata, "metadata"),
        outputs={key: value.encode(item, f"outputs.{key}") for key, item in envelope.outputs.items()},
    )


def ref(envelope: Envelope | str | None, thread_id: str | None, run_id: str | None) -> pb.RunRef:
    """The run that is meant; exactly one of the three says which."""
    if [envelope, thread_id, run_id].count(None) != 2:
        raise TypeError("say which run is meant by exactly one of envelope, thread_id and run_id")
    if thread_id is not None:
        return pb.RunRef(thread_id=thread_id)
    if run_id is not None:
        return pb.RunRef(run_id=run_id)
    return pb.RunRef(envelope_id=envelope.envelope_id if isinstance(envelope, Envelope) else envelope)


def rollback(
    of: pb.RunRef,
    checkpoint_id: str | None,
    stage: str | None,
    outputs: Mapping[str, Any] | None,
    metadata: Mapping[str, Any] | None,
    bounds: Bounds | None,
    fork: bool,
    new_thread_id: str | None,
) -> pb.RollbackRequest:
    if (checkpoint_id is None) == (stage is None):
        raise TypeError("say where to go back to by either checkpoint_id or stage")
    request = pb.RollbackRequest(
        ref=of,
        outputs={key: value.encode(item, f"outputs.{key}") for key, item in (outputs or {}).items()},
        metadata_json=_json("metadata", metadata),
        bounds=bounds_message(bounds) if bounds else None,
        fork=fork,
        new_thread_id=new_thread_id,
    )
    if checkpoint_id is not None:
        request.checkpoint_id = checkpoint_id
    if stage is not None:
        request.stage = stage
    return request


def resume(
    of: pb.RunRef,
    interrupt_id: str,
    text: str | None,
    approved: bool | None,
    decision: str | None,
    data: Any,
    note: str | None,
) -> pb.ResumeRequest:
    response = None
    if any(part is not None for part in (text, approved, decision, data, note)):
        response = pb.InterruptResponse(text=text, decision=decision, data=_json("data", data), note=note)
        if approved is not None:  # an explicit False is a no
            response.approved = approved
    return pb.ResumeRequest(ref=of, interrupt_id=interrupt_id, response=response)


def _json(name: str, content: Any) -> bytes | None:
    return None if content is None else value.encode(content, name)


def _pipeline(pipeline: PipelineLike | None) -> pb.PipelineConfig | None:
    if pipeline is None:
        return None
    if isinstance(pipeline, Mapping):
        return pb.PipelineConfig(document=value.encode(pipeline, "pipeline"))
    if isinstance(pipeline, bytes):
        return pb.PipelineConfig(document=pipeline)
    if not isinstance(pipeline, str):
        return pb.PipelineConfig(document=Path(pipeline).read_bytes())
    if "\n" in pipeline:
        return pb.PipelineConfig(document=pipeline.encode())
    if pipeline.startswith("sha256:"):
        return pb.PipelineConfig(digest=pipeline)
    return pb.PipelineConfig(name=pipeline)
