"""Every method of both clients, against the server."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path

import pytest

from tipstaff import (
    Aborted,
    AlreadyExists,
    BoundsExceeded,
    Client,
    Envelope,
    EventType,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ProtocolError,
    ResourceExhausted,
    Usage,
)
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.envelope import envelope_of
from tipstaff.event import event_of
from tests.conftest import LOOP

_numbers = itertools.count(1)


def fresh(word: str) -> str:
    """A name that no other test has used."""
    return f"{word}-{next(_numbers)}"


def test_create_check_and_run_a_loop_to_its_end(client: Client) -> None:
    envelope = client.create_envelope("Hello", "user1", "session1")
    envelope.outputs["test"] = {"key": "value"}
    result = client.check_bounds(envelope)
    assert result.can_continue
    assert result.llm_calls_remaining == 10
    del envelope.outputs["test"]

    events = list(client.execute_pipeline(envelope, fresh("thread")))
    assert [e.stage for e in events if e.type == EventType.STAGE_COMPLETED] == ["intent", "work", "critic"] * 2
    assert [e.seq for e in events] == sorted({e.seq for e in events})
    assert [e.final for e in events] == [False] * (len(events) - 1) + [True]
    last = events[-1]
    assert last.type is EventType.PIPELINE_COMPLETED
    assert last.envelope is not None
    assert (last.envelope.outcome, last.envelope.iteration) == ("completed", 1)
    assert envelope.outputs["critic"] == {"verdict": "fine"}, "the Envelope was not brought up to date"
    assert client.get_state(envelope) == last.envelope


def test_what_an_envelope_is_made_of(client: Client) -> None:
    order = ["critic", "work", "intent"]
    made = client.create_envelope(
        "in", "u", "s", fresh("req"), {"n": 2**70, "f": 1.0, "no": None}, order, pipeline=LOOP, goals=["a", "b"]
    )
    assert (made.raw_input, made.user_id, made.session_id) == ("in", "u", "s")
    assert made.metadata == {"n": 2**70, "f": 1.0, "no": None}
    assert isinstance(made.metadata["f"], float)
    assert [goal.name for goal in made.goals] == ["a", "b"]
    assert made.state == "drafting"
    first = next(e for e in client.execute_pipeline(made) if e.type == EventType.STAGE_STARTED)
    assert first.stage == "critic"


def test_the_same_request_id_gives_the_same_envelope(client: Client) -> None:
    request_id = fresh("req")
    first = client.create_envelope("x", "u", "s", request_id)
    assert client.create_envelope("x", "u", "s", request_id).envelope_id == first.envelope_id
    with pytest.raises(AlreadyExists):
        client.create_envelope("y", "u", "s", request_id)


def test_a_pipeline_is_named_in_any_way(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "loop.yaml"
    file.write_text(LOOP)
    document = {"name": "one", "agents": [{"name": "a", "scripted": {"answers": [{"output": {"n": 1}}]}}]}
    digest = client.create_envelope("x", pipeline="loop").pipeline_digest
    for pipeline in (LOOP, LOOP.encode(), file, digest):
        assert client.create_envelope("x", pipeline=pipeline).pipeline_digest == digest
    assert client.create_envelope("x", pipeline=document).pipeline == "one"
    with pytest.raises(NotFound):
        client.create_envelope("x", pipeline="unheard-of")


def test_every_problem_of_a_document_is_told(client: Client) -> None:
    with pytest.raises(InvalidArgument) as refused:
        client.create_envelope("x", pipeline="name: bad\nagents:\n  - {name: a}\n  - {name: a, scripted: {answers: []}}\n")
    error = refused.value
    assert error.code is not None and error.code.name == "INVALID_ARGUMENT"
    assert error.reason == "invalid_program"
    assert {"no_way_to_run", "duplicate_name"} <= {violation.reason for violation in error.details}


def test_changes_are_saved_and_nothing_else(client: Client) -> None:
    envelope = client.create_envelope("x", metadata={"stays": 1, "goes": 2, "too": 3})
    envelope.outputs["intent"] = {"big": 2**70, "exact": Decimal("0.1000000000000000000001"), "no": False}
    envelope.metadata["new"] = [1, 1.0]
    del envelope.metadata["goes"]
    envelope.metadata["too"] = None
    envelope.llm_call_count, envelope.max_llm_calls = -5, 1000
    before = envelope.version
    assert client.update_envelope(envelope) is envelope

    held = client.get_state(envelope)
    assert held == envelope
    assert held.version == before + 1
    assert held.outputs == {"intent": {"big": 2**70, "exact": Decimal("0.1000000000000000000001"), "no": False}}
    assert held.metadata == {"stays": 1, "new": [1, 1.0]}
    assert (held.llm_call_count, held.max_llm_calls) == (0, 10)
    assert client.update_envelope(envelope).version == held.version, "nothing had changed"

    del envelope.outputs["intent"]
    assert client.update_envelope(envelope).outputs == {}


def test_what_is_too_large_is_refused(client: Client) -> None:
    with pytest.raises(ResourceExhausted):
        client.create_envelope("x" * (16 << 20))


def test_a_thread_names_its_newest_run(client: Client) -> None:
    thread = fresh("thread")
    first, second = client.create_envelope("x"), client.create_envelope("y")
    list(client.execute_pipeline(first, thread))
    assert first.thread_id == thread
    assert client.get_state(thread_id=thread) == first
    list(client.execute_pipeline(second, thread))
    assert client.get_state(thread_id=thread).run_id == second.run_id


def test_an_output_and_use_are_reported(client: Client) -> None:
    envelope = client.create_envelope("x")
    usage = Usage(llm_calls=3, tokens_in=10, tokens_out=5, cost_usd="0.25")
    client.update_envelope(envelope, agent_name="intent", output={"task": "t"}, usage=usage)
    assert envelope.outputs == {"intent": {"task": "t"}}
    assert (envelope.llm_call_count, envelope.tokens_in, envelope.cost_usd) == (3, 10, Decimal("0.25"))
    left = client.check_bounds(envelope)
    assert (left.llm_calls_remaining, left.cost_usd_remaining) == (7, Decimal("4.75"))
    left.raise_if_exceeded()


def test_who_comes_second_with_a_change_is_told(client: Client) -> None:
    mine = client.create_envelope("x")
    theirs = client.get_state(mine)
    mine.outputs["intent"] = {"by": "me"}
    theirs.outputs["intent"] = {"by": "them"}
    client.update_envelope(mine)
    with pytest.raises(Aborted) as refused:
        client.update_envelope(theirs)
    assert refused.value.reason == "version_stale"


def test_exceeded_bounds_raise_and_other_endings_do_not(client: Client) -> None:
    envelope = client.create_envelope("x")
    client.update_envelope(envelope, usage=Usage(llm_calls=10))
    spent = client.check_bounds(envelope)
    assert not spent.can_continue
    with pytest.raises(BoundsExceeded) as refused:
        spent.raise_if_exceeded()
    assert refused.value.reason == "max_llm_calls_exceeded"

    done = client.create_envelope("x")
    list(client.execute_pipeline(done))
    ended = client.check_bounds(done)
    assert (ended.can_continue, ended.terminal_reason) == (False, "completed")
    ended.raise_if_exceeded()


def test_bounds_can_be_lowered_alone(client: Client) -> None:
    envelope = client.create_envelope("x")
    with pytest.raises(InvalidArgument):
        list(client.execute_pipeline(envelope, bounds={"max_iterations": 1000}))
    events = list(client.execute_pipeline(envelope, bounds={"max_agent_hops": 2, "max_cost_usd": "1.5"}))
    assert EventType.BOUNDS_EXCEEDED in [e.type for e in events]
    assert (envelope.outcome, envelope.terminal_reason) == ("bound_exceeded", "max_agent_hops_exceeded")
    assert envelope.max_cost_usd == Decimal("1.5")


def test_unsaved_changes_are_saved_before_a_run(client: Client) -> None:
    document = """
name: greeting
agents:
  - name: greet
    routing_rules: [{when: "outputs.given.name == 'Ada'", target: end}]
    default_next: greet
    scripted: {answers: [{output: {}}]}
"""
    envelope = client.create_envelope("x", pipeline=document)
    envelope.outputs["given"] = {"name": "Ada"}
    list(client.execute_pipeline(envelope))
    assert (envelope.outcome, envelope.iteration) == ("completed", 0)


def test_an_envelope_that_nobody_made_is_made_by_its_execution(client: Client) -> None:
    envelope = Envelope(raw_input="x", metadata={"a": 1})
    list(client.execute_pipeline(envelope))
    assert envelope.envelope_id.startswith("env_")
    assert (envelope.metadata, envelope.outcome) == ({"a": 1}, "completed")


def test_one_agent_is_run_on_a_draft(client: Client) -> None:
    envelope = client.create_envelope("x")
    envelope.outputs["given"] = {"by": "me"}
    result = client.execute_agent(envelope, "intent")
    assert (result.success, result.output) == (True, {"task": "greet"})
    assert envelope.outputs == {"given": {"by": "me"}, "intent": {"task": "greet"}}
    assert (envelope.state, envelope.agent_hop_count) == ("drafting", 1)

    failing = {"name": "fails", "scripted": {"answers": [{"error": {"code": "no_luck", "message": "not today"}}]}}
    result = client.execute_agent(envelope, "fails", agent=failing)
    assert (result.success, result.error_code, result.error) == (False, "no_luck", "not today")
    with pytest.raises(NotFound):
        client.execute_agent(envelope, "nobody")


def test_back_to_a_checkpoint_with_another_verdict(client: Client) -> None:
    envelope = client.create_envelope("x")
    list(client.execute_pipeline(envelope))
    [automatic] = client.list_checkpoints(envelope)
    assert (automatic.stage, automatic.automatic, automatic.iteration) == ("critic", True, 0)
    back = client.rollback(envelope, checkpoint_id=automatic.id, outputs={"critic": {"verdict": "fine"}})
    assert back.envelope_id == envelope.envelope_id
    assert back.run_id != envelope.run_id
    assert not back.terminated
    events = list(client.resume(back))
    assert events[-1].envelope is not None
    assert events[-1].envelope.outcome == "completed"
    reasons = [transition.reason for transition in client.list_transitions(envelope)]
    assert reasons[0] == "start"
    assert reasons[-2:] == ["rollback", "complete"]
    [start, *_] = client.list_transitions(run_id=envelope.run_id)
    assert (start.source, start.target) == ("start", "intent")


def test_a_fork_leaves_the_old_run_alone(client: Client) -> None:
    envelope = client.create_envelope("x")
    list(client.execute_pipeline(envelope))
    other = client.rollback(envelope, stage="critic", fork=True, new_thread_id=fresh("fork"), metadata={"why": "try"})
    assert other.envelope_id != envelope.envelope_id
    assert other.metadata == {"why": "try"}
    list(client.execute_pipeline(other))
    assert other.outcome == "completed"
    assert client.get_state(envelope).outcome == "completed"


def test_cancel_ends_a_run_and_a_second_one_changes_nothing(client: Client) -> None:
    hangs = "name: hangs\nagents:\n  - {name: a, scripted: {answers: [{hang: true}]}}\n"
    envelope = client.create_envelope("x", pipeline=hangs)
    for event in client.execute_pipeline(envelope):
        if event.type == EventType.STAGE_STARTED:
            break  # the stream is lost, the run is not
    assert client.get_state(envelope).condition == "running"
    with pytest.raises(FailedPrecondition):
        list(client.execute_pipeline(envelope))
    ended = client.cancel(envelope, reason="enough")
    assert (ended.outcome, ended.terminal_reason) == ("cancelled", "user_cancelled")
    assert client.cancel(run_id=envelope.run_id).terminal_reason == "user_cancelled"


def test_watch_tells_what_execute_told(client: Client) -> None:
    envelope = client.create_envelope("x")
    told = list(client.execute_pipeline(envelope))
    assert list(client.watch(envelope)) == told
    assert list(client.watch(run_id=envelope.run_id, after_seq=told[4].seq, follow=False)) == told[5:]


def test_lists_go_on_over_pages(client: Client) -> None:
    document = """
name: long
max_iterations: 120
max_agent_hops: 200
agents:
  - name: again
    routing_rules: [{when: "iteration < 110", target: again}]
    default_next: end
    scripted: {answers: [{output: {}}]}
"""
    envelope = client.create_envelope("x", pipeline=document)
    list(client.execute_pipeline(envelope))
    assert envelope.iteration == 110
    assert [c.turn for c in client.list_checkpoints(envelope)] == list(range(1, 111))
    assert len(client.list_transitions(envelope)) == 112


def test_goals_feedback_and_rounds_are_read(client: Client) -> None:
    document = """
name: rounds
agents:
  - {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {}}]}}
  - name: judge
    stage_order: 2
    routing_rules: [{condition: again, value: true, target: work}]
    scripted:
      answers:
        - {output: {again: true}, control: {satisfied_goals: [a], summary: half, feedback: do b, metadata: {seen: 1}}}
        - {output: {again: false}, control: {satisfied_goals: [b]}}
"""
    envelope = client.create_envelope("x", pipeline=document, goals=["a", "b"])
    list(client.execute_pipeline(envelope))
    assert [(r.number, r.satisfied, r.summary) for r in envelope.rounds] == [(1, ["a"], "half")]
    assert [(f.source, f.target, f.text) for f in envelope.feedback] == [("judge", "work", "do b")]
    assert {g.name: g.status for g in envelope.goals} == {"a": "satisfied", "b": "satisfied"}
    assert envelope.metadata == {"seen": 1}
    assert {(e.source, e.target): e.count for e in envelope.edge_counts} == {("work", "judge"): 2, ("judge", "work"): 1}


def test_a_run_is_named_in_one_way(client: Client) -> None:
    with pytest.raises(TypeError, match="exactly one"):
        client.get_state()
    with pytest.raises(TypeError, match="exactly one"):
        client.get_state("env_1", run_id="x")
    with pytest.raises(NotFound):
        client.get_state(thread_id=fresh("nobody"))


def test_a_word_that_is_not_known_is_no_success() -> None:
    with pytest.raises(ProtocolError, match="terminal_reason"):
        envelope_of(pb.Envelope(terminated=True, terminal_reason="mostly_done"))
    with pytest.raises(ProtocolError, match="outcome"):
        envelope_of(pb.Envelope(terminated=True, outcome="fine"))


def test_an_event_type_that_is_not_known_is_a_number_and_no_event_without_seq() -> None:
    later = event_of(pb.ExecutionEvent(type=99, seq=1))  # type: ignore[arg-type]
    assert later.type == 99
    assert not isinstance(later.type, EventType)
    with pytest.raises(ProtocolError):
        event_of(pb.ExecutionEvent())


def test_event_types_are_those_of_the_wire() -> None:
    assert {t.name: t.value for t in EventType} == dict(pb.ExecutionEvent.EventType.items())
