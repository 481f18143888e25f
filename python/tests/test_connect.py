"""Finding a server, and not finding one."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import Server
from tipstaff import TLS, AsyncClient, Client, DeadlineExceeded, InvalidArgument, ServerUnavailable, Unauthenticated, connection


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def test_no_server_is_told_within_five_seconds() -> None:
    address = f"127.0.0.1:{free_port()}"
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match=address):
        Client(address).create_envelope("x")
    assert time.monotonic() - started < 5


def test_no_server_is_told_within_five_seconds_to_asyncio() -> None:
    async def attempt() -> None:
        async with AsyncClient(f"127.0.0.1:{free_port()}"):
            raise AssertionError("there is nobody")

    started = time.monotonic()
    with pytest.raises(ServerUnavailable):
        asyncio.run(attempt())
    assert time.monotonic() - started < 5


def test_a_server_on_a_socket(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.address = f"unix:{tmp_path}/s.sock"
    server.start()
    try:
        with Client(server.address, token=server.token) as client:
            assert client.create_envelope("x").state == "drafting"
        with Client(server.address, token="of-somebody-else-entirely") as stranger, pytest.raises(Unauthenticated) as refused:
            stranger.create_envelope("x")
        assert refused.value.reason == "unauthenticated"
    finally:
        server.end(signal.SIGKILL)


def test_faults_are_told_however_many_and_long(shared: Server) -> None:
    many = "name: p\nagents:\n" + "".join(f"  - {{name: a{i}, remote: {{}}, wrong{i}: 1}}\n" for i in range(5000))
    long = "name: p\nagents: [{name: a, remote: {}, " + "k" * 100_000 + ": 1}]\n"
    with shared.client() as client:
        for document, shown in ((many, 21), (long, 1)):
            with pytest.raises(InvalidArgument) as refused:
                client.create_envelope("x", pipeline=document)
            assert refused.value.reason == "invalid_program"
            assert len(refused.value.details) == shown


def test_address_and_token_come_from_the_environment(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIPSTAFF_ADDRESS", shared.address)
    monkeypatch.setenv("TIPSTAFF_TOKEN", shared.token)
    with Client() as client:
        assert client.create_envelope("x").state == "drafting"


def test_the_token_comes_from_the_workspace(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIPSTAFF_TOKEN", raising=False)
    monkeypatch.chdir(shared.workspace)
    with Client(shared.address) as client:
        assert client.create_envelope("x").state == "drafting"


def test_arguments_go_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIPSTAFF_ADDRESS", "there:1")
    monkeypatch.setenv("TIPSTAFF_TOKEN", "theirs")
    assert connection.find("here:2", "mine", None) == connection.Target("here:2", "mine", None)
    monkeypatch.delenv("TIPSTAFF_ADDRESS")
    monkeypatch.delenv("TIPSTAFF_TOKEN")
    monkeypatch.setenv("TIPSTAFF_WORKSPACE", str(tmp_path))
    assert connection.find(None, None, None) == connection.Target("localhost:50051", "", None)


@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_has_no_token_is_told(shared: Server, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIPSTAFF_TOKEN", raising=False)
    with Client(shared.address, token=token) as client, pytest.raises(Unauthenticated):
        client.create_envelope("x")


def test_a_call_has_a_deadline(shared: Server) -> None:
    hangs = "name: hangs\nagents:\n  - {name: a, scripted: {answers: [{hang: true}]}}\n"
    with shared.client() as client:
        for _ in range(5):  # the server may notice it first
            envelope = client.create_envelope("x", pipeline=hangs)
            with pytest.raises(DeadlineExceeded):
                client.execute_agent(envelope, "a", timeout=0.3)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates with")
def test_the_connection_may_be_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.0)  # a refusal looks like nobody
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*made.split(), "-out", cert, "-keyout", key], check=True, capture_output=True)
    server = Server(tmp_path, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert)
    server.start()
    try:
        with server.client(tls=TLS(ca_file=cert, cert_file=cert, key_file=key)) as client:
            assert client.create_envelope("x", pipeline={"name": "none", "agents": []}).state == "drafting"
        for unfit in (None, TLS(), TLS(ca_file=cert)):
            with pytest.raises(ServerUnavailable):
                server.client(tls=unfit).create_envelope("x")
    finally:
        server.end(signal.SIGKILL)


def test_a_closed_client_connects_again(shared: Server) -> None:
    client = shared.client()
    first = client.create_envelope("x")
    client.close()
    assert client.get_state(first).envelope_id == first.envelope_id
    client.close()
