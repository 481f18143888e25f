"""The calls that a host has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from tipstaff.call import AsyncCall, Call
from tipstaff.core.v1 import core_pb2 as pb

RETURN_SECONDS = 3600.0
"""How long a result is kept that nobody has acknowledged. The server waits a minute for
that of a call which must not be repeated, counted anew when it was started again; one
that comes later it shows to whoever is asked about the call."""


class Calls:
    """The calls that a host has: those under way, and the results of those that have
    ended, until they are acknowledged."""

    def __init__(self) -> None:
        self._open: dict[str, Call | AsyncCall] = {}
        self._held: dict[str, tuple[pb.Result, float]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_open(self, call_id: str) -> bool:
        return call_id in self._open

    def begin(self, call: Call | AsyncCall) -> None:
        self._open[call.call_id] = call
        self._none_left.clear()

    def cancel(self, call_id: str, reason: str) -> None:
        call = self._open.get(call_id)
        if call is not None:
            call.cancel(reason)

    def end(self, result: pb.Result) -> None:
        """Keep the result of a call, also of one that could not even begin."""
        self._open.pop(result.call_id, None)
        self._held[result.call_id] = result, time.monotonic() + RETURN_SECONDS
        self._none_left.clear()

    def acknowledged(self, call_id: str) -> None:
        self._held.pop(call_id, None)
        self._look()

    def result(self, call_id: str) -> pb.Result | None:
        held = self._held.get(call_id)
        return held[0] if held else None

    def results(self) -> list[pb.Result]:
        """Those that are not acknowledged and not too old to be of use."""
        now = time.monotonic()
        self._held = {call_id: held for call_id, held in self._held.items() if now < held[1]}
        self._look()
        return [result for result, _ in self._held.values()]

    def forget_results(self) -> None:
        self._held.clear()
        self._look()

    def _look(self) -> None:
        if not self._open and not self._held:
            self._none_left.set()

    async def finished(self, linger: float) -> None:
        """Returns when there is no call, and none has come for a moment."""
        while True:
            await self._none_left.wait()
            await asyncio.sleep(linger)
            if self._none_left.is_set():
                return

    def give_up(self) -> None:
        for task in self._tasks:
            task.cancel()
