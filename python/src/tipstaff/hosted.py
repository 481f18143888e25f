"""A function that serves as an agent."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tipstaff import answer
from tipstaff.call import AsyncCall, Call, Interrupt, StageError
from tipstaff.core.v1 import core_pb2 as pb

_log = logging.getLogger("tipstaff.host")


@dataclass
class HostedAgent:
    """The function, and what the server is told of it."""

    name: str
    effect: str
    concurrency: int
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        self.is_async = inspect.iscoroutinefunction(self.function)
        # The server keeps to the concurrency, but after a reconnect it does not know
        # of every call that is still under way here.
        self.room = asyncio.Semaphore(self.concurrency)

    async def perform(self, call: Call | AsyncCall) -> pb.Result:
        if not self.is_async:
            return await self._in_thread(call)
        try:
            return answer.returned(call.call_id, await self.function(call))
        except Exception as error:
            return self._raised(call, error)

    def _in_thread(self, call: Call | AsyncCall) -> asyncio.Future[pb.Result]:
        """A thread that nobody waits for at the end: a function that hangs must not
        keep a host alive that was told to go."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[pb.Result] = loop.create_future()

        def settle(content: pb.Result) -> None:
            if not result.done():
                result.set_result(content)

        def work() -> None:
            try:
                content = answer.returned(call.call_id, self.function(call))
            except BaseException as error:
                content = self._raised(call, error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, content)

        threading.Thread(target=work, name=f"tipstaff-{call.path}", daemon=True).start()
        return result

    def _raised(self, call: Call | AsyncCall, error: BaseException) -> pb.Result:
        if not isinstance(error, (Interrupt, StageError)):
            _log.error("agent %s failed at %s", self.name, call.path, exc_info=error)
        return answer.raised(call.call_id, error)
