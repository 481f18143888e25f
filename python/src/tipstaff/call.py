"""One call of an agent that a host serves: what the function gets and may return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Union

from tipstaff import message, money, value
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.envelope import Envelope, envelope_of
from tipstaff.message import AMOUNT
from tipstaff.usage import Usage

Amount = Union[Decimal, int, str]


class Interrupt(Exception):
    """Raised by an agent that must ask a person first. The stage is held; after the
    answer it runs again, or wherever the pipeline says.

    ``kind`` is ``clarification``, ``confirmation`` or ``question``; ``output`` is kept
    as the stage's own.
    """

    def __init__(
        self,
        kind: str,
        *,
        question: str = "",
        message: str = "",
        data: Mapping[str, Any] | None = None,
        ttl_seconds: int = 0,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(question or message or kind)
        self.output = dict(output or {})
        self.request = {
            name: content
            for name, content in {
                "kind": kind,
                "question": question,
                "message": message,
                "data": data,
                "ttl_seconds": ttl_seconds,
            }.items()
            if content
        }


class StageError(Exception):
    """Raised by an agent that fails. ``retryable``: another attempt may succeed."""

    def __init__(self, code: str, message: str = "", *, retryable: bool = False) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message or code
        self.retryable = retryable


@dataclass(frozen=True)
class Result:
    """An output, and what an agent has to say beside it."""

    output: Mapping[str, Any]
    usage: Usage = Usage()
    feedback: str = ""
    """For the stage that runs again, if the route leads back."""
    satisfied_goals: Sequence[str] = ()
    summary: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Merged into the run's."""
    break_run: bool = False
    """End the run now, well."""

    def control(self) -> dict[str, Any]:
        parts = {
            "feedback": self.feedback,
            "satisfied_goals": list(self.satisfied_goals),
            "summary": self.summary,
            "metadata": self.metadata,
            "break": self.break_run,
        }
        return {name: part for name, part in parts.items() if part}


@dataclass(frozen=True)
class Budget:
    """What the run has left when the call was made."""

    llm_calls: int
    tool_calls: int
    tokens: int
    cost_usd: Decimal = field(metadata=AMOUNT)
    wall_ms: int


@dataclass(frozen=True)
class Grant:
    """Whether a part of the budget may be used; true in a condition if it may."""

    granted: bool
    bound: str | None = None
    """Which bound refused. None of a refusal: the server could not be asked, or no
    longer wants the call."""

    def __bool__(self) -> bool:
        return self.granted

    def raise_if_refused(self) -> None:
        """End the stage at the bound that refused."""
        if not self.granted:
            raise StageError("bound_exceeded", f"refused: {self.bound or 'the server could not be asked'}")


Ask = Callable[[pb.Reserve], Awaitable[Grant]]


class BaseCall:
    """What both kinds of calls have."""

    def __init__(self, call: pb.Call, ask: Ask, cancelled: threading.Event | asyncio.Event) -> None:
        self.call_id = call.call_id
        self.run_id = call.run_id
        self.path = call.path
        self.agent = call.agent
        self.visit = call.visit
        self.attempt = call.attempt
        self.input: Any = value.decode(call.input) if call.input else None
        self.envelope: Envelope = envelope_of(call.view)
        self.deadline: datetime | None = message.time(call.deadline) if call.HasField("deadline") else None
        self.budget: Budget = message.read(Budget, call.budget)
        self.idempotency_key = call.idempotency_key
        self.redelivery = call.redelivery
        self.cancel_reason = ""
        self._ask, self._set_cancelled = ask, cancelled.set

    def cancel(self, reason: str) -> None:
        """For the host: the result is no longer wanted."""
        self.cancel_reason = reason
        self._set_cancelled()

    def _reserve(self, llm_calls: int, tool_calls: int, tokens: int, cost_usd: Amount) -> Awaitable[Grant]:
        return self._ask(
            pb.Reserve(
                call_id=self.call_id,
                llm_calls=llm_calls,
                tool_calls=tool_calls,
                tokens=tokens,
                cost=money.to_nano(cost_usd),
            )
        )


class Call(BaseCall):
    """What a function is called with.

    ``input`` and ``envelope`` are what to work on; ``visit`` and ``attempt`` count from
    1; ``deadline`` is when the result comes too late; ``budget`` what the run has left;
    ``idempotency_key`` goes along with whatever is done to the world, the same with
    every delivery; ``redelivery`` says that an earlier one may have been begun;
    ``cancelled`` is an event, set when the result is no longer wanted.
    """

    def __init__(self, call: pb.Call, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self.cancelled = threading.Event()
        super().__init__(call, ask, self.cancelled)
        self._loop = loop

    def reserve(self, *, llm_calls: int = 0, tool_calls: int = 0, tokens: int = 0, cost_usd: Amount = 0) -> Grant:
        """Take a part of the budget before using it, so that no bound is passed."""

        async def ask() -> Grant:
            return await self._reserve(llm_calls, tool_calls, tokens, cost_usd)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()


class AsyncCall(BaseCall):
    """What a coroutine function is called with: a :class:`Call` whose ``cancelled`` is
    an :class:`asyncio.Event` and whose ``reserve`` is awaited."""

    def __init__(self, call: pb.Call, ask: Ask) -> None:
        self.cancelled = asyncio.Event()
        super().__init__(call, ask, self.cancelled)

    async def reserve(self, *, llm_calls: int = 0, tool_calls: int = 0, tokens: int = 0, cost_usd: Amount = 0) -> Grant:
        """See :meth:`Call.reserve`."""
        return await self._reserve(llm_calls, tool_calls, tokens, cost_usd)
