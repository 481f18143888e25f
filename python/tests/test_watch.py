"""Watching a run over the server's own end."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import PATIENCE, Server
from tipstaff import AsyncClient, EventType, ExecutionEvent, ServerUnavailable

# The second stage takes long enough for the server to be stopped meanwhile, and may be
# begun again.
SLOW = """
name: slow
agents:
  - {name: first, stage_order: 1, default_next: second, scripted: {answers: [{output: {}}]}}
  - {name: second, stage_order: 2, scripted: {answers: [{output: {n: 1}, delay_ms: 1500}]}}
"""


def watch_sync(server: Server, run_id: str, seen: Callable[[ExecutionEvent], None], **options: Any) -> None:
    with server.client() as client:
        for event in client.watch(run_id=run_id, **options):
            seen(event)


def watch_async(server: Server, run_id: str, seen: Callable[[ExecutionEvent], None], **options: Any) -> None:
    async def watch() -> None:
        async with AsyncClient(server.address, token=server.token) as client:
            async for event in client.watch(run_id=run_id, **options):
                seen(event)

    asyncio.run(watch())


class Watcher:
    """Watches in a thread."""

    def __init__(self, watch: Callable[..., None], server: Server, run_id: str, **options: Any) -> None:
        self.events: list[ExecutionEvent] = []
        self.failed: BaseException | None = None
        self.second_began = threading.Event()

        def run() -> None:
            try:
                watch(server, run_id, self._see, **options)
            except BaseException as error:
                self.failed = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def _see(self, event: ExecutionEvent) -> None:
        self.events.append(event)
        if event.type == EventType.STAGE_STARTED and event.stage == "second":
            self.second_began.set()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def run_id(server: Server) -> Iterator[str]:
    """A run that has begun."""
    with server.client() as client:
        envelope = client.create_envelope("x", pipeline=SLOW)
        next(iter(client.execute_pipeline(envelope)))
        yield envelope.run_id


@pytest.mark.parametrize("watch", [watch_sync, watch_async])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_watcher_misses_nothing_when_the_server_is_started_again(
    watch: Callable[..., None], number: signal.Signals, server: Server, run_id: str
) -> None:
    watcher = Watcher(watch, server, run_id)
    assert watcher.second_began.wait(PATIENCE)
    server.end(number)
    server.start()
    watcher.join()
    assert watcher.failed is None
    with server.client() as client:
        assert watcher.events == list(client.watch(run_id=run_id))
    assert watcher.events[-1].envelope is not None
    assert watcher.events[-1].envelope.outcome == "completed"


@pytest.mark.parametrize("watch", [watch_sync, watch_async])
def test_without_reconnect_the_loss_is_told(watch: Callable[..., None], server: Server, run_id: str) -> None:
    watcher = Watcher(watch, server, run_id, reconnect=False)
    assert watcher.second_began.wait(PATIENCE)
    server.end(signal.SIGKILL)
    watcher.join()
    assert isinstance(watcher.failed, ServerUnavailable)
