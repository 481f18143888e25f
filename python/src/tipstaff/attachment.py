"""One stream between a host and the server, from Register until it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import grpc.aio

from tipstaff.call import Grant
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.errors import ProtocolError

REGISTER_SECONDS = 10.0
"""How long the answer to Register is waited for."""

Stream = grpc.aio.StreamStreamCall[pb.HostMessage, pb.ServerMessage]


class Attachment:
    """Says what the host says, and asks for parts of budgets. Whoever iterates over it
    hears the server, and why the stream ended; that sending failed is never news."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._writing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Grant]] = {}

    async def register(self, register: pb.Register) -> int:
        """Attach; returns how often, in seconds, a sign of life is wanted."""
        await self.send(pb.HostMessage(register=register))
        first = await asyncio.wait_for(self._stream.read(), REGISTER_SECONDS)
        if not isinstance(first, pb.ServerMessage) or not first.HasField("registered"):
            raise ProtocolError("the server did not answer Register")
        return max(first.registered.heartbeat_seconds, 1)

    async def send(self, message: pb.HostMessage) -> bool:
        """Whether it was sent. If not, the stream has ended."""
        async with self._writing:
            try:
                await self._stream.write(message)
            except (grpc.RpcError, asyncio.InvalidStateError):
                return False
        return True

    async def __aiter__(self) -> AsyncIterator[pb.ServerMessage]:
        while True:
            message = await self._stream.read()
            if not isinstance(message, pb.ServerMessage):
                return
            yield message

    async def reserve(self, reserve: pb.Reserve) -> Grant:
        """Ask for a part of a call's budget. A question that is lost with the stream is
        answered with a no: nobody knows whether it was heard."""
        reserve.number = next(self._numbers)
        grant: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        self._asked[reserve.number] = grant
        try:
            if not await self.send(pb.HostMessage(reserve=reserve)):
                return Grant(granted=False)
            return await grant
        finally:
            del self._asked[reserve.number]

    def granted(self, grant: pb.Grant) -> None:
        """The answer to a question."""
        self._answer(grant.number, Grant(grant.granted, grant.bound if grant.HasField("bound") else None))

    def lost(self) -> None:
        """Nothing more will be heard."""
        for number in list(self._asked):
            self._answer(number, Grant(granted=False))

    def _answer(self, number: int, grant: Grant) -> None:
        waiting = self._asked.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(grant)

    async def leave(self) -> None:
        """Say that nothing more will be said. The server then ends the stream."""
        async with self._writing:
            try:
                await self._stream.done_writing()
            except (grpc.RpcError, asyncio.InvalidStateError):
                pass  # it has ended already
