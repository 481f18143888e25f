"""Functions as stages: what they get, what they may answer, and how hosts come and go."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

import pytest

from tests.conftest import PATIENCE, Server, serving
from tipstaff import (
    AgentHost,
    AlreadyExists,
    AsyncCall,
    Call,
    Client,
    Envelope,
    EventType,
    Interrupt,
    Result,
    StageError,
    Unauthenticated,
    Usage,
)

REMOTE = """
name: remote
max_llm_calls: 3
agents:
  - {name: work, remote: {input: {text: "${input}", big: "${metadata.big}"}}, effect: read, max_retries: 1, retry_delay_ms: 1}
"""


def run(client: Client, document: str = REMOTE, **options: Any) -> Envelope:
    options.setdefault("metadata", {"big": 1})
    envelope = client.create_envelope("hello", pipeline=document, **options)
    list(client.execute_pipeline(envelope))
    return envelope


def test_a_function_gets_its_call_and_answers(server: Server) -> None:
    host, calls = server.host(version="1.0"), []

    @host.agent("work", effect="read", concurrency=2)
    def work(call: Call) -> dict[str, Any]:
        calls.append(call)
        return {"said": call.input["text"].upper(), "big": call.input["big"] + 1, "exact": Decimal("0.1000000000000000000001")}

    with serving(host), server.client() as client:
        envelope = run(client, metadata={"a": 1, "big": 2**70})
    assert envelope.outputs["work"] == {"said": "HELLO", "big": 2**70 + 1, "exact": Decimal("0.1000000000000000000001")}
    [call] = calls
    assert (call.agent, call.visit, call.attempt, call.redelivery) == ("work", 1, 1, False)
    assert (call.envelope.raw_input, call.envelope.metadata) == ("hello", {"a": 1, "big": 2**70})
    assert call.run_id == envelope.run_id
    assert call.deadline is not None
    assert call.idempotency_key
    assert call.budget.llm_calls == 3
    assert not call.cancelled.is_set()


def test_a_coroutine_function_answers_too(server: Server) -> None:
    host = server.host()

    @host.agent("work", effect="read")
    async def work(call: AsyncCall) -> Result:
        await asyncio.sleep(0)
        return Result({"n": call.visit}, usage=Usage(llm_calls=2, tokens_in=7, cost_usd="0.001"), metadata={"seen": True})

    with serving(host), server.client() as client:
        envelope = run(client)
    assert envelope.outputs["work"] == {"n": 1}
    assert (envelope.llm_call_count, envelope.tokens_in, envelope.cost_usd) == (2, 7, Decimal("0.001"))
    assert envelope.metadata["seen"] is True


@pytest.mark.parametrize(
    ("answer", "code", "made"),
    [
        (StageError("no_luck", "not today"), "no_luck", [1]),
        (KeyError("lost"), "agent_error", [1]),
        ([1, 2], "output_invalid", [1, 2]),  # the server tries those again
        ({"n": float("nan")}, "output_invalid", [1, 2]),
        ({"n": "x" * (17 << 20)}, "output_too_large", [1]),
    ],
)
def test_a_failure_says_why(server: Server, answer: Any, code: str, made: list[int]) -> None:
    host, attempts = server.host(), []

    @host.agent("work", effect="read")
    def work(call: Call) -> Any:
        attempts.append(call.attempt)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with serving(host), server.client() as client:
        envelope = run(client)
    assert envelope.terminal_reason == "stage_failed_fatally"
    assert [error.code for error in envelope.errors] == [code]
    assert attempts == made


def test_a_retryable_failure_is_tried_again(server: Server) -> None:
    host = server.host()

    @host.agent("work", effect="read")
    async def work(call: AsyncCall) -> dict[str, Any]:
        if call.attempt == 1:
            raise StageError("busy", "come back", retryable=True)
        return {"attempt": call.attempt}

    with serving(host), server.client() as client:
        assert run(client).outputs["work"] == {"attempt": 2}


def test_an_agent_may_ask(server: Server) -> None:
    host = server.host()

    @host.agent("work", effect="read")
    def work(call: Call) -> dict[str, Any]:
        [*asked] = call.envelope.interrupts
        if not asked:
            raise Interrupt("clarification", question="Which one?", data={"choice": [1, 2]}, output={"half": True})
        assert asked[0].response is not None
        return {"chosen": asked[0].response.text}

    with serving(host), server.client() as client:
        envelope = run(client)
        [question] = envelope.open_interrupts
        assert (question.kind, question.question, question.data) == ("clarification", "Which one?", {"choice": [1, 2]})
        assert envelope.outputs["work"] == {"half": True}
        last = list(client.resume(envelope, text="the first"))[-1]
        assert last.envelope is not None
        assert last.envelope.outputs["work"] == {"chosen": "the first"}


def test_break_ends_the_run_well(server: Server) -> None:
    host = server.host()

    @host.agent("work", effect="read")
    def work(call: Call) -> Result:
        return Result({"enough": True}, break_run=True)

    with serving(host), server.client() as client:
        assert run(client).terminal_reason == "break_requested"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_who_reserves_first_is_bounded_exactly(server: Server, kind: str) -> None:
    host, granted = server.host(), []

    def sync_work(call: Call) -> dict[str, Any]:
        while True:
            grant = call.reserve(llm_calls=1)
            grant.raise_if_refused()
            granted.append(grant)

    async def async_work(call: AsyncCall) -> dict[str, Any]:
        while True:
            grant = await call.reserve(llm_calls=1)
            grant.raise_if_refused()
            granted.append(grant)

    host.agent("work", effect="read")(sync_work if kind == "sync" else async_work)
    with serving(host), server.client() as client:
        envelope = run(client)
        left = client.check_bounds(envelope)
    assert len(granted) == 3
    assert (envelope.terminal_reason, left.llm_calls_remaining) == ("max_llm_calls_exceeded", 0)


def test_a_cancelled_call_is_told(server: Server) -> None:
    host, began, told = server.host(), threading.Event(), threading.Event()

    @host.agent("work", effect="read")
    def work(call: Call) -> dict[str, Any]:
        began.set()
        if call.cancelled.wait(PATIENCE):
            told.set()
        return {}

    with serving(host), server.client() as client:
        envelope = client.create_envelope("x", metadata={"big": 1}, pipeline=REMOTE)
        for event in client.execute_pipeline(envelope):
            if event.type == EventType.STAGE_STARTED:
                break
        assert began.wait(PATIENCE)
        assert client.cancel(envelope).outcome == "cancelled"
        assert told.wait(PATIENCE)


def test_calls_of_one_agent_run_at_once_up_to_its_concurrency(server: Server) -> None:
    host, together = server.host(), threading.Barrier(3)

    @host.agent("work", effect="read", concurrency=3)
    def work(call: Call) -> dict[str, Any]:
        together.wait(PATIENCE)  # breaks unless three are there
        return {}

    agents = "".join(f"  - {{name: a{n}, entry: true, requires: [], remote: {{agent: work}}, effect: read}}\n" for n in range(3))
    document = "name: three\nagents:\n" + agents + "  - {name: last, requires: [a0, a1, a2], scripted: {answers: [{output: {}}]}}\n"
    with serving(host), server.client() as client:
        assert run(client, document).outcome == "completed"


def test_a_host_that_stops_finishes_its_call(server: Server) -> None:
    host, began, release = server.host(), threading.Event(), threading.Event()

    @host.agent("work", effect="once")
    def work(call: Call) -> dict[str, Any]:
        began.set()
        assert release.wait(PATIENCE)
        return {"done": True}

    once = "name: once\nagents:\n  - {name: work, remote: {}}\n"
    with server.client() as client:
        envelope = client.create_envelope("x", pipeline=once)
        with serving(host):
            events = client.execute_pipeline(envelope)
            next(events)
            assert began.wait(PATIENCE)
            threading.Timer(0.3, release.set).start()  # when it has been told to stop
        list(events)
    assert envelope.outputs["work"] == {"done": True}


def test_what_no_further_attempt_can_mend_is_raised(server: Server) -> None:
    def agent(call: Call) -> dict[str, Any]:
        return {}

    stranger = AgentHost(server.address, token="wrong")
    stranger.agent("work")(agent)
    with pytest.raises(Unauthenticated):
        stranger.run()

    first, other = server.host(), server.host()
    first.agent("work", effect="read")(agent)
    other.agent("work", effect="once")(agent)
    once = "name: once\nagents:\n  - {name: work, remote: {}, effect: read}\n"
    with serving(first), server.client() as client:
        assert run(client, once).outcome == "completed"  # so the first is attached
        with pytest.raises(AlreadyExists):
            other.run()


def test_a_host_must_serve_something_and_nothing_twice(server: Server) -> None:
    host = server.host()
    with pytest.raises(ValueError, match="no agent"):
        host.run()
    host.agent("work")(lambda call: {})
    with pytest.raises(ValueError, match="already"):
        host.agent("work")
    with pytest.raises(ValueError, match="at least 1"):
        host.agent("other", concurrency=0)


FAILING = """
name: failing
agents:
  - {name: work, stage_order: 1, remote: {}, effect: read, error_next: mend}
  - {name: mend, stage_order: 2, remote: {}, effect: read, default_next: end}
"""


@pytest.mark.parametrize("size", [4_500_000, 40_000_000])
def test_an_error_of_many_megabytes_hurts_nobody_else(server: Server, size: int) -> None:
    host = server.host()

    @host.agent("work", effect="read")
    def work(call: Call) -> dict[str, Any]:
        raise ValueError("the beginning " + "x" * size + " \udc80 the end")

    @host.agent("mend", effect="read")
    def mend(call: Call) -> dict[str, Any]:
        return {"failed": [e.message for e in call.envelope.errors]}

    with serving(host), server.client() as client:
        envelope = run(client, FAILING, metadata={})
        assert envelope.terminal_reason == "completed"
        state = client.get_state(envelope)
        [error] = state.errors
        assert error.code == "agent_error"
        assert len(error.message.encode()) <= 4096
        assert error.message.startswith("ValueError: the beginning x")
        assert error.message.endswith("the end")
        assert "show --artifact sha256:" in error.message
        assert state.outputs["mend"] == {"failed": [error.message]}
