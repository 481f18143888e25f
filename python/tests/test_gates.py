"""Questions to people, and their answers."""

from __future__ import annotations

import pytest

from tipstaff import Aborted, Client, Envelope, EventType, InvalidArgument, NotFound

ASKS = """
name: asks
agents:
  - name: ask
    denied_next: sorry
    routing_rules: [{when: "response != null", target: end}]
    default_next: end
    scripted:
      answers:
        - {output: {}, control: {interrupt: {kind: KIND, question: "Shall I?", data: {n: 7}}}}
        - {output: {asked: true}}
  - {name: sorry, stage_order: 1, default_next: end, scripted: {answers: [{output: {sorry: true}}]}}
"""


def parked(client: Client, kind: str, document: str = ASKS) -> Envelope:
    envelope = client.create_envelope("x", pipeline=document.replace("KIND", kind))
    last = list(client.execute_pipeline(envelope))[-1]
    assert last.final
    assert last.type is EventType.INTERRUPT_RAISED
    assert last.payload["question"] == "Shall I?"
    return envelope


def test_a_question_is_shown_and_answered(client: Client) -> None:
    envelope = parked(client, "clarification")
    assert envelope.interrupt_pending
    [question] = envelope.open_interrupts
    assert (question.kind, question.stage, question.data) == ("clarification", "ask", {"n": 7})
    assert question.expires_at is not None
    assert not client.check_bounds(envelope).can_continue
    client.check_bounds(envelope).raise_if_exceeded()

    events = list(client.resume(envelope, interrupt_id=question.id, text="yes, and gladly"))
    assert EventType.INTERRUPT_RESOLVED in [e.type for e in events]
    done = client.get_state(envelope)
    assert (done.outcome, done.outputs["ask"]) == ("completed", {"asked": True})
    [answered] = done.interrupts
    assert not answered.open
    assert answered.response is not None
    assert answered.response.text == "yes, and gladly"


def test_a_checkpoint_of_a_run_that_waits_is_labelled(client: Client) -> None:
    envelope = parked(client, "clarification")
    labelled = client.create_checkpoint(envelope, "before the answer")
    assert (labelled.stage, labelled.labels, labelled.automatic) == ("ask", ["before the answer"], False)
    assert client.list_checkpoints(run_id=envelope.run_id) == [labelled]


def test_an_explicit_false_is_a_no(client: Client) -> None:
    envelope = parked(client, "confirmation")
    last = list(client.resume(envelope, approved=False))[-1]
    assert last.envelope is not None
    assert last.envelope.outputs["sorry"] == {"sorry": True}


def test_an_explicit_false_without_a_way_on_ends_the_run(client: Client) -> None:
    envelope = parked(client, "confirmation", ASKS.replace("denied_next: sorry", ""))
    last = list(client.resume(envelope, approved=False))[-1]
    assert last.envelope is not None
    assert last.envelope.terminal_reason == "gate_denied"


def test_a_yes_with_data_is_a_decision(client: Client) -> None:
    envelope = parked(client, "confirmation")
    last = list(client.resume(envelope, approved=True, note="I looked"))[-1]
    assert last.envelope is not None
    assert last.envelope.outcome == "completed"
    [answered] = last.envelope.interrupts
    assert answered.response is not None
    assert (answered.response.approved, answered.response.note) == (True, "I looked")


def test_no_answer_is_refused(client: Client) -> None:
    envelope = parked(client, "confirmation")
    [question] = envelope.open_interrupts
    with pytest.raises(InvalidArgument):
        list(client.resume(envelope, interrupt_id=question.id))
    with pytest.raises(InvalidArgument):
        list(client.resume(envelope, note="just a remark"))
    assert client.get_state(envelope).interrupt_pending


def test_another_answer_to_what_is_decided_is_refused(client: Client) -> None:
    envelope = parked(client, "confirmation")
    [question] = envelope.open_interrupts
    list(client.resume(envelope, interrupt_id=question.id, approved=True))
    with pytest.raises(Aborted):
        list(client.resume(envelope, interrupt_id=question.id, decision="reject"))
    with pytest.raises(NotFound):
        list(client.resume(envelope, interrupt_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", approved=True))


def test_what_waits_is_listed(client: Client) -> None:
    envelope = parked(client, "confirmation")
    [waits] = [i for i in client.list_interrupts(kinds=["confirmation"]) if i.run_id == envelope.run_id]
    [question] = envelope.open_interrupts
    assert (waits.status, waits.interrupt) == ("awaiting_decision", question)
    assert question.shown is not None
    assert question.shown.whole
    assert (question.shown.parts[0].name, question.shown.parts[0].text) == ("data", '{"n":7}')
    assert envelope.run_id in [run.run_id for run in client.list_runs(status=["awaiting_decision"])]
    [thread] = [t for t in client.list_threads() if t.head.run_id == envelope.run_id]
    assert (thread.thread_id, thread.runs) == (envelope.thread_id, 1)
    with pytest.raises(InvalidArgument):
        list(client.list_interrupts(kinds=["riddle"]))

    checkpoint = client.create_checkpoint(envelope, "before the answer")
    list(client.resume(envelope, approved=True))
    assert envelope.run_id not in [i.run_id for i in client.list_interrupts()]
    then = client.get_state(envelope, checkpoint_id=checkpoint.id)
    assert (then.envelope_id, then.terminated, client.get_state(envelope).terminated) == (envelope.envelope_id, False, True)
