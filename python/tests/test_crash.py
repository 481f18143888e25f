"""Hosts and servers that die in the middle of things.

The hosts are processes that append to files, so that what they did is known whatever
became of them.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tests.conftest import BINARY, PATIENCE, HostProcess, Server, Wire, lines, serving, wait_for
from tipstaff import AgentHost, Call, Client, Envelope, EventType
from tipstaff.attachment import Attachment
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.core.v1 import core_pb2_grpc

ONE = "name: one\nagents:\n  - {name: work, remote: {}, effect: EFFECT, timeout_seconds: 120}\n"

# Says which call it has, and answers when the file "go" is there.
WAITING_HOST = """
import json, os, time
from tipstaff import AgentHost

host = AgentHost()

@host.agent("work", effect="EFFECT", concurrency=1)
def work(call):
    with open("calls", "a") as file:
        file.write(json.dumps([os.environ["HOST_NAME"], call.path, call.idempotency_key, call.redelivery]) + "\\n")
    while not os.path.exists("go"):
        time.sleep(0.02)
    return {"by": os.environ["HOST_NAME"]}

host.run()
"""


def begin(client: Client, document: str) -> Envelope:
    """A run that nobody reads the events of."""
    envelope = client.create_envelope("x", pipeline=document)
    next(iter(client.execute_pipeline(envelope)))
    return envelope


def end_of(client: Client, envelope: Envelope) -> Envelope:
    last = list(client.watch(run_id=envelope.run_id))[-1]
    assert last.envelope is not None
    return last.envelope


def calls(server: Server) -> list[Any]:
    return [json.loads(line) for line in lines(server.workspace / "calls")]


@dataclass
class Doubt:
    server: Server
    envelope: Envelope


@pytest.fixture(scope="session")
def doubt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doubt]:
    """A call that must not be repeated, whose host has just been killed. The server
    gives the host a minute to come back: conftest.py has the other tests run meanwhile."""
    server = Server(tmp_path_factory.mktemp("doubt"))
    server.start()
    with HostProcess(server, WAITING_HOST.replace("EFFECT", "once")) as host, server.client() as client:
        envelope = begin(client, ONE.replace("EFFECT", "once"))
        wait_for(lambda: len(calls(server)) == 1, "the call")
        host.end(signal.SIGKILL)
        yield Doubt(server, envelope)
    server.end(signal.SIGKILL)


def test_a_lost_call_is_not_given_to_another_host_if_it_must_not_be_repeated(doubt: Doubt) -> None:
    with HostProcess(doubt.server, WAITING_HOST.replace("EFFECT", "once"), "another"), doubt.server.client() as client:
        assert client.get_state(doubt.envelope).condition == "running"
        assert len(calls(doubt.server)) == 1


def test_a_lost_call_that_may_be_repeated_is_delivered_again_with_its_key(server: Server) -> None:
    with server.client() as client:
        with HostProcess(server, WAITING_HOST.replace("EFFECT", "read"), "first") as host:
            envelope = begin(client, ONE.replace("EFFECT", "read"))
            wait_for(lambda: len(calls(server)) == 1, "the call")
            host.end(signal.SIGKILL)
        (server.workspace / "go").touch()
        with HostProcess(server, WAITING_HOST.replace("EFFECT", "read"), "second"):
            assert end_of(client, envelope).outputs["work"] == {"by": "second"}
    [first, second] = calls(server)
    assert first[:2] == ["first", "work#1"]
    assert second[:2] == ["second", "work#1"]
    assert first[2] == second[2]
    assert [first[3], second[3]] == [False, True]


def test_of_two_hosts_the_living_one_takes_over(server: Server) -> None:
    document = """
name: two
agents:
  - {name: left, entry: true, remote: {agent: work}, effect: read}
  - {name: right, entry: true, remote: {agent: work}, effect: read}
  - {name: last, requires: [left, right], scripted: {answers: [{output: {}}]}}
"""
    code = WAITING_HOST.replace("EFFECT", "read")
    with HostProcess(server, code, "one") as one, HostProcess(server, code, "two"), server.client() as client:
        envelope = begin(client, document)
        wait_for(lambda: len(calls(server)) == 2, "both calls")
        assert {call[0] for call in calls(server)} == {"one", "two"}
        one.end(signal.SIGKILL)
        (server.workspace / "go").touch()
        ended = end_of(client, envelope)
    assert ended.outcome == "completed"
    assert [ended.outputs["left"], ended.outputs["right"]] == [{"by": "two"}, {"by": "two"}]
    assert len(calls(server)) == 3


@pytest.mark.parametrize("effect", ["once", "read"])
def test_a_result_is_taken_from_a_host_that_comes_back(server: Server, effect: str) -> None:
    wire, began, release = Wire(server), threading.Event(), threading.Event()
    host, visits = AgentHost(wire.address, token=server.token), []

    @host.agent("work", effect=effect)
    def work(call: Call) -> dict[str, Any]:
        visits.append(call.call_id)
        began.set()
        assert release.wait(PATIENCE)
        return {"kept": True}

    with serving(host), server.client() as client:
        envelope = begin(client, ONE.replace("EFFECT", effect))
        assert began.wait(PATIENCE)
        wire.cut()
        release.set()
        ended = end_of(client, envelope)
    assert (ended.outcome, ended.outputs["work"]) == ("completed", {"kept": True})
    assert len(visits) == 1


def journal(server: Server, envelope: Envelope) -> list[Any]:
    command = [BINARY, "events", envelope.run_id, "--workspace", str(server.workspace), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in told.splitlines()]


async def bring(server: Server, host_id: str, result: pb.Result) -> pb.Ack:
    """Bring a result as that host."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = core_pb2_grpc.CoreServiceStub(channel)
        attachment = Attachment(stub.ServeAgents(metadata=(("authorization", f"Bearer {server.token}"),)))
        agents = [pb.HostedAgent(name="work", effect="once", concurrency=1)]
        await attachment.register(pb.Register(host_id=host_id, agents=agents))
        await attachment.send(pb.HostMessage(result=result))
        return (await attachment.__aiter__().__anext__()).ack


def test_the_first_result_counts_and_every_one_is_acknowledged(server: Server) -> None:
    document = """
name: two
agents:
  - {name: work, stage_order: 1, default_next: wait, remote: {}, effect: once}
  - {name: wait, stage_order: 2, scripted: {answers: [{hang: true}]}}
"""

    def result(call_id: str, n: int) -> pb.HostMessage:
        return pb.HostMessage(result=pb.Result(call_id=call_id, output=b'{"n":%d}' % n))

    async def talk(client: Client) -> Envelope:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = core_pb2_grpc.CoreServiceStub(channel)
            metadata = (("authorization", f"Bearer {server.token}"),)
            attachment = Attachment(stub.ServeAgents(metadata=metadata))
            agents = [pb.HostedAgent(name="work", effect="once", concurrency=1)]
            await attachment.register(pb.Register(host_id="by-hand", agents=agents))
            envelope = begin(client, document)
            heard = attachment.__aiter__()
            call = (await heard.__anext__()).call
            for n in (1, 1, 2):
                await attachment.send(result(call.call_id, n))
                assert (await heard.__anext__()).ack.call_id == call.call_id
            return envelope

    with server.client() as client:
        envelope = asyncio.run(talk(client))
        assert client.get_state(envelope).outputs["work"] == {"n": 1}
        assert [record["kind"] for record in journal(server, envelope)].count("effect.late") == 1
        client.cancel(envelope)


# Says which visit of which stage it has. The file "hold" names one that has to wait,
# for its file "go" or, if the host is to die with it, for ever.
LOOP_HOST = """
import os, time
from tipstaff import AgentHost

host = AgentHost()

def note(call):
    with open(call.agent, "a") as file:
        file.write(f"{call.visit}\\n")
    while os.path.exists(f"hold.{call.agent}.{call.visit}"):
        time.sleep(0.02)

@host.agent("look", effect="read")
def look(call):
    note(call)
    return {}

@host.agent("act", effect="once")
def act(call):
    note(call)
    return {"visit": call.visit}

@host.agent("judge", effect="read")
async def judge(call):
    note(call)
    return {"again": call.visit < 4}

host.run()
"""

LOOP_OF_FUNCTIONS = """
name: functions
max_iterations: 5
default_timeout_seconds: 120
agents:
  - {name: look, stage_order: 1, default_next: act, remote: {}, effect: read}
  - {name: act, stage_order: 2, default_next: judge, remote: {}, effect: once}
  - {name: judge, stage_order: 3, remote: {}, effect: read, routing_rules: [{condition: again, value: true, target: look}]}
"""


def test_a_loop_of_functions_outlives_server_and_host_and_repeats_nothing(server: Server) -> None:
    folder = server.workspace

    def hold(stage: str) -> Path:
        file = folder / f"hold.{stage}"
        file.touch()
        return file

    def reached(stage: str, visit: int) -> None:
        wait_for(lambda: lines(folder / stage)[-1:] == [str(visit)], f"visit {visit} of {stage}")

    server_dies, host_dies, doubtful = hold("look.2"), hold("look.3"), hold("act.4")
    with HostProcess(server, LOOP_HOST, "first") as first:
        with server.client() as client:
            envelope = begin(client, LOOP_OF_FUNCTIONS)
        reached("look", 2)
        server.end(signal.SIGKILL)
        server_dies.unlink()
        server.start()
        reached("look", 3)
        first.end(signal.SIGKILL)
        host_dies.unlink()

    with HostProcess(server, LOOP_HOST, "second"):
        reached("act", 4)
        server.end(signal.SIGKILL)  # in the middle of what must not be repeated
        server.start()
        doubtful.unlink()
        with server.client() as client:
            ended = end_of(client, envelope)  # the host is alive, and brings what it did
    assert (ended.outcome, ended.iteration) == ("completed", 3)
    assert lines(folder / "act") == ["1", "2", "3", "4"]
    assert ended.outputs["act"] == {"visit": 4}


def test_sigterm_lets_a_host_finish(server: Server) -> None:
    with HostProcess(server, WAITING_HOST.replace("EFFECT", "once")) as host, server.client() as client:
        envelope = begin(client, ONE.replace("EFFECT", "once"))
        wait_for(lambda: len(calls(server)) == 1, "the call")
        threading.Timer(0.5, (server.workspace / "go").touch).start()
        assert host.end(signal.SIGTERM) == 0
        assert end_of(client, envelope).outputs["work"] == {"by": "host"}


def test_a_lost_call_that_must_not_be_repeated_is_in_doubt_after_a_minute(doubt: Doubt) -> None:
    with doubt.server.client() as client:
        for event in client.watch(run_id=doubt.envelope.run_id):
            last = event
        assert last.type is EventType.INTERRUPT_RAISED
        assert last.payload["kind"] == "in_doubt"
        assert len(calls(doubt.server)) == 1


def test_a_result_that_comes_later_still_is_offered(doubt: Doubt) -> None:
    [sent] = [record for record in journal(doubt.server, doubt.envelope) if record["kind"] == "effect.sent"]
    result = pb.Result(call_id=f"{doubt.envelope.run_id}/work#1", output=b'{"late":true}')
    assert not asyncio.run(bring(doubt.server, sent["body"]["host_id"], result)).HasField("refused")
    with doubt.server.client() as client:
        [question] = client.get_state(doubt.envelope).open_interrupts
        assert question.given is not None
        assert (question.given.output, question.given.error) == ({"late": True}, None)
        last = list(client.resume(doubt.envelope, decision="use_result"))[-1]
    assert last.envelope is not None
    assert (last.envelope.outcome, last.envelope.outputs["work"]) == ("completed", {"late": True})
