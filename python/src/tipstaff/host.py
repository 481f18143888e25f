"""Functions of this program as stages of pipelines.

The host attaches to a server and stays attached: it comes back when the connection or
the server is lost, and brings the results that nobody has acknowledged. Everything here
happens in one event loop. :mod:`tipstaff.attachment` is one stream, :mod:`tipstaff.calls`
what is under way, :mod:`tipstaff.hosted` a function.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, Union

import grpc
import grpc.aio

from tipstaff import answer, connection
from tipstaff.attachment import Attachment
from tipstaff.backoff import Backoff
from tipstaff.call import AsyncCall, Call, Grant, Result
from tipstaff.calls import Calls
from tipstaff.connection import TLS
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.core.v1 import core_pb2_grpc
from tipstaff.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    TipstaffError,
    Unauthenticated,
    Unimplemented,
    from_call,
)
from tipstaff.hosted import HostedAgent

Returned = Union[Mapping[str, Any], Result]
AgentFunction = Union[Callable[[Call], Returned], Callable[[AsyncCall], Awaitable[Returned]]]
F = TypeVar("F", bound=AgentFunction)

LEAVE_SECONDS = 2.0
"""How long the server is given to end the stream of a host that leaves."""

LINGER_SECONDS = 0.25
"""A call may be on its way to the host when the server hears that no more are wanted."""

_DRAIN = pb.HostMessage(drain=pb.Drain())
_HEARTBEAT = pb.HostMessage(heartbeat=pb.Heartbeat())

_log = logging.getLogger("tipstaff.host")


class AgentHost:
    """Serves agents until it is told to stop.

    ``host_id`` tells the server, after a reconnect, that the same process is back; give
    one only if no two processes ever have it at once. ``version`` is that of the host's
    own code, for people. ``drain_seconds`` is how long calls are awaited when the host
    stops. The other arguments are those of :class:`Client`; the token needs the scope
    ``host``.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        tls: TLS | None = None,
        host_id: str | None = None,
        version: str = "",
        drain_seconds: float = 30.0,
    ) -> None:
        self._target = connection.find(address, token, tls)
        self._host_id = host_id or f"python-{uuid.uuid4().hex}"
        self._version = version
        self._drain_seconds = drain_seconds
        self._agents: dict[str, HostedAgent] = {}
        self._calls = Calls()
        self._attachment: Attachment | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping, self._giving_up = asyncio.Event(), asyncio.Event()

    def agent(self, name: str, *, effect: str = "once", concurrency: int = 1) -> Callable[[F], F]:
        """Serve a function, or a coroutine function, as the agent of this name.

        ``effect`` says what may be done about a call that was lost: ``read`` and
        ``idempotent`` ones are made again, ``once`` never silently. ``concurrency`` is
        how many calls it takes at a time.
        """
        if name in self._agents:
            raise ValueError(f"agent {name} is served already")
        if concurrency < 1:
            raise ValueError(f"agent {name}: concurrency is at least 1, not {concurrency}")

        def register(function: F) -> F:
            self._agents[name] = HostedAgent(name, effect, concurrency, function)
            return function

        return register

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT: then take no more calls, finish those there
        are and return. A second signal gives them up."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._begin_to_stop)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not on this system, or not in this thread: stop() remains
        await self.serve()

    def stop(self) -> None:
        """Take no more calls, finish those there are, then let :meth:`serve` and
        :meth:`run` return; called again, give them up. From any thread."""
        if self._loop is None:
            self._stopping.set()
        else:
            self._loop.call_soon_threadsafe(self._begin_to_stop)

    async def serve(self) -> None:
        """Serve until :meth:`stop`, in a program that has an event loop of its own.
        Raises what no further attempt can mend, such as an unknown token."""
        if not self._agents:
            raise ValueError("the host serves no agent: decorate a function with @host.agent(name)")
        self._loop = asyncio.get_running_loop()
        backoff = Backoff()
        ending = asyncio.ensure_future(self._ending())
        try:
            while not ending.done():
                attached = asyncio.ensure_future(self._attach(backoff))
                await asyncio.wait({attached, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not attached.done():
                    await self._leave(attached)
                    return
                attached.result()
                await asyncio.wait({ending}, timeout=backoff.seconds())
        finally:
            ending.cancel()
            self._calls.give_up()

    def _begin_to_stop(self) -> None:
        if self._stopping.is_set():
            self._giving_up.set()
        self._stopping.set()
        if self._attachment is not None:
            self._calls.spawn(self._attachment.send(_DRAIN))

    async def _ending(self) -> None:
        """Ends when the host is to leave: it was told to stop, and has finished or has
        tried for long enough."""
        await self._stopping.wait()
        finishing = asyncio.ensure_future(self._calls.finished(LINGER_SECONDS))
        giving_up = asyncio.ensure_future(self._giving_up.wait())
        await asyncio.wait(
            {finishing, giving_up}, timeout=self._drain_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        finishing.cancel()
        giving_up.cancel()

    async def _leave(self, attached: asyncio.Future[None]) -> None:
        if self._attachment is not None:
            await self._attachment.leave()
            await asyncio.wait({attached}, timeout=LEAVE_SECONDS)
        attached.cancel()
        await asyncio.gather(attached, return_exceptions=True)

    async def _attach(self, backoff: Backoff) -> None:
        """One attachment, until it ends. Raises only what a reconnect cannot mend."""
        registered = False
        try:
            async with self._target.async_channel() as channel:
                stub = core_pb2_grpc.CoreServiceStub(channel)
                attachment = Attachment(stub.ServeAgents(metadata=self._target.metadata))
                heartbeat = await attachment.register(self._registration())
                registered = True
                backoff.reset()
                _log.info("attached to %s", self._target.address)
                await self._listen(attachment, heartbeat)
        except grpc.RpcError as error:
            self._judge(from_call(error), registered)
        except asyncio.TimeoutError:
            _log.warning("%s does not answer", self._target.address)

    def _registration(self) -> pb.Register:
        agents = [
            pb.HostedAgent(name=agent.name, effect=agent.effect, concurrency=agent.concurrency)
            for agent in self._agents.values()
        ]
        return pb.Register(host_id=self._host_id, version=self._version, agents=agents)

    def _judge(self, error: TipstaffError, registered: bool) -> None:
        """Raise what would happen again. A result that the server cannot take would end
        every attachment, so none is kept."""
        if isinstance(error, (Unauthenticated, PermissionDenied, AlreadyExists, FailedPrecondition, Unimplemented)):
            raise error
        if isinstance(error, (InvalidArgument, ResourceExhausted)):
            if not registered:
                raise error
            self._calls.forget_results()
        _log.warning("lost %s: %s", self._target.address, error)

    async def _listen(self, attachment: Attachment, heartbeat: int) -> None:
        self._attachment = attachment
        beating = asyncio.ensure_future(self._beat(attachment, heartbeat))
        try:
            async for message in attachment:
                self._hear(attachment, message)
        finally:
            beating.cancel()
            self._attachment = None
            attachment.lost()

    async def _beat(self, attachment: Attachment, seconds: int) -> None:
        """Give signs of life, and bring again what was not acknowledged."""
        if self._stopping.is_set():
            await attachment.send(_DRAIN)
        while True:
            for result in self._calls.results():
                await attachment.send(pb.HostMessage(result=result))
            await asyncio.sleep(seconds)
            await attachment.send(_HEARTBEAT)

    def _hear(self, attachment: Attachment, message: pb.ServerMessage) -> None:
        kind = message.WhichOneof("message")
        if kind == "call":
            self._take(message.call)
        elif kind == "ack":
            if message.ack.HasField("refused"):
                _log.warning("the result of %s was refused: %s", message.ack.call_id, message.ack.refused)
            self._calls.acknowledged(message.ack.call_id)
        elif kind == "cancel":
            self._calls.cancel(message.cancel.call_id, message.cancel.reason)
        elif kind == "grant":
            attachment.granted(message.grant)
        elif kind == "drain":
            _log.info("%s is about to stop", self._target.address)

    def _take(self, message: pb.Call) -> None:
        """Begin a call, unless this is another delivery of one that is under way. One
        whose result is held is answered by that."""
        if self._calls.is_open(message.call_id):
            return
        held = self._calls.result(message.call_id)
        if held is not None:
            self._calls.spawn(self._bring(held))
            return
        agent = self._agents[message.agent]
        call: Call | AsyncCall
        try:
            if agent.is_async:
                call = AsyncCall(message, self._reserve)
            else:
                call = Call(message, self._reserve, asyncio.get_running_loop())
        except (ValueError, TipstaffError) as error:
            result = answer.failed(message.call_id, "input_error", str(error))
            self._calls.end(result)
            self._calls.spawn(self._bring(result))
            return
        self._calls.begin(call)
        self._calls.spawn(self._perform(agent, call))

    async def _perform(self, agent: HostedAgent, call: Call | AsyncCall) -> None:
        async with agent.room:
            result = await agent.perform(call)
        self._calls.end(result)
        await self._bring(result)

    async def _bring(self, result: pb.Result) -> None:
        """Send a result, if there is anybody to send it to. Until it is acknowledged it
        is sent again with the next attachment, and with signs of life."""
        if self._attachment is not None:
            await self._attachment.send(pb.HostMessage(result=result))

    async def _reserve(self, reserve: pb.Reserve) -> Grant:
        return await self._attachment.reserve(reserve) if self._attachment else Grant(granted=False)
