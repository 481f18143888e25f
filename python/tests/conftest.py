"""The real server, in a workspace of its own. Nothing here imitates it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tipstaff
from tipstaff import AgentHost, AsyncClient, Client

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TIPSTAFF_BINARY", str(REPOSITORY / "bin" / "tipstaff"))
os.environ["TIPSTAFF_TRUST"] = "1"  # nobody is asked about the folders of tests
PATIENCE = 30.0  # for what takes a moment, on a machine that is busy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the minute for which a server waits for a lost host pass during the other
    tests: what begins it goes first, what needs its end last."""
    waiting = [item for item in items if "doubt" in getattr(item, "fixturenames", ())]
    others = [item for item in items if item not in waiting]
    items[:] = waiting[:1] + others + waiting[1:]


class Server:
    """``tipstaff serve`` in a folder. It keeps its port when it is started again."""

    def __init__(self, workspace: Path, *flags: str) -> None:
        self.workspace = workspace
        self.address = "127.0.0.1:0"
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [BINARY, "serve", "--workspace", str(self.workspace), "--json", "--grpc-addr", self.address, "--addr", "127.0.0.1:0"]
        log = (self.workspace / "serve.log").open("a")
        self._process = subprocess.Popen([*command, *self._flags], stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self.workspace / "serve.log").read_text()
        self.address = json.loads(line)["grpc_addr"]

    @property
    def token(self) -> str:
        command = [BINARY, "serve", "--token", "--workspace", str(self.workspace)]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.communicate(timeout=PATIENCE)
            self._process = None

    def client(self, **options: Any) -> Client:
        return Client(self.address, token=self.token, **options)

    def host(self, **options: Any) -> AgentHost:
        return AgentHost(self.address, token=self.token, **options)

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TIPSTAFF_ADDRESS": self.address, "TIPSTAFF_TOKEN": self.token}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that nobody else uses."""
    found = Server(tmp_path)
    found.start()
    yield found
    found.end(signal.SIGKILL)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that leave it as it was."""
    workspace = tmp_path_factory.mktemp("workspace")
    pipelines = workspace / "pipelines"
    pipelines.mkdir()
    (pipelines / "loop.yaml").write_text(LOOP)
    found = Server(workspace, "--pipelines", str(pipelines), "--default-pipeline", "loop")
    found.start()
    yield found
    found.end(signal.SIGKILL)


class Awaited:
    """An AsyncClient whose methods are awaited in a loop of their own, so that one test
    tries both clients."""

    def __init__(self, make: Callable[[], AsyncClient]) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = make()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            if hasattr(answer, "__aiter__"):
                return self._each(answer)
            return self._loop.run_until_complete(answer)

        return call

    def _each(self, events: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.run_until_complete(events.__anext__())
            except StopAsyncIteration:
                return

    def end(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, shared: Server) -> Iterator[Client]:
    """Each of the two clients."""
    if request.param == "sync":
        with shared.client() as blocking:
            yield blocking
        return
    awaited = Awaited(lambda: AsyncClient(shared.address, token=shared.token))
    yield awaited  # type: ignore[misc]  # it has the same methods
    awaited.end()


@contextmanager
def serving(host: AgentHost) -> Iterator[AgentHost]:
    """A host in a thread of this process."""
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            host.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield host
    finally:
        host.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the host did not stop"
        assert not failed, failed


class Wire:
    """Passes bytes on to the server, and can be cut."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection there is. New ones can be made."""
        for end in self._pairs:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            host, port = self._server.address.rsplit(":", 1)
            far = socket.create_connection((host, int(port)))
            self._pairs += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                sink.sendall(content)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


class HostProcess:
    """A host in a process of its own, which can be killed."""

    def __init__(self, server: Server, code: str, name: str = "host") -> None:
        self.folder = server.workspace
        script = self.folder / f"{name}.py"
        script.write_text(textwrap.dedent(code))
        environment = {**server.environment(), "HOST_NAME": name, "PYTHONPATH": str(Path(tipstaff.__file__).parents[1])}
        log = (self.folder / f"{name}.log").open("a")
        self._process = subprocess.Popen([sys.executable, str(script)], cwd=self.folder, env=environment, stderr=log)

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.end(signal.SIGKILL)


LOOP = """
name: loop
agents:
  - {name: intent, stage_order: 1, default_next: work, scripted: {answers: [{output: {task: greet}}]}}
  - {name: work, stage_order: 2, default_next: critic, scripted: {answers: [{output: {done: true}}]}}
  - name: critic
    stage_order: 3
    routing_rules: [{condition: verdict, value: reintent, target: intent}]
    scripted: {answers: [{output: {verdict: reintent}}, {output: {verdict: fine}}]}
"""
"""A pipeline that goes round once more and then is content."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Until something is so that no event tells, such as what another process wrote."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: it did not happen"
        time.sleep(0.02)


def lines(file: Path) -> list[str]:
    """What processes have appended to a file, which need not be there."""
    return file.read_text().splitlines() if file.exists() else []
