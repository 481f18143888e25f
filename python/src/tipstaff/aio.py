"""The client for asyncio: the methods of :class:`tipstaff.client.Client`, awaited.

What they mean is said there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio

from tipstaff import connection, request
from tipstaff.agent import AgentResult, agent_result_of
from tipstaff.checkpoint import Checkpoint, Transition
from tipstaff.connection import TLS
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.core.v1 import core_pb2_grpc
from tipstaff.envelope import Envelope, envelope_of
from tipstaff.errors import TipstaffError, from_call
from tipstaff.event import ExecutionEvent, event_of
from tipstaff.listing import PendingInterrupt, RunSummary, Thread
from tipstaff.message import read
from tipstaff.request import PipelineLike
from tipstaff.usage import Bounds, BoundsResult, Usage
from tipstaff.watching import Watching

Request = TypeVar("Request")
Response = TypeVar("Response")


class AsyncClient:
    """A connection to a Tipstaff server, with the arguments and methods of
    :class:`~tipstaff.client.Client`. It belongs to the event loop that first uses it.
    """

    def __init__(
        self, address: str | None = None, *, token: str | None = None, tls: TLS | None = None, timeout: float = 30.0
    ) -> None:
        self._target = connection.find(address, token, tls)
        self._timeout = timeout
        self._channel: grpc.aio.Channel | None = None
        self._connecting = asyncio.Lock()

    async def create_envelope(
        self,
        raw_input: str,
        user_id: str = "",
        session_id: str = "",
        request_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        stage_order: Sequence[str] | None = None,
        *,
        pipeline: PipelineLike | None = None,
        goals: Sequence[str] | None = None,
    ) -> Envelope:
        """See :meth:`Client.create_envelope`."""
        message = request.create_envelope(
            raw_input, user_id, session_id, request_id, metadata, stage_order, pipeline, goals
        )
        return envelope_of(await self._ask((await self._stub()).CreateEnvelope, message))

    async def check_bounds(self, envelope: Envelope | str) -> BoundsResult:
        """See :meth:`Client.check_bounds`."""
        answer = await self._ask((await self._stub()).CheckBounds, request.bounds_of(envelope))
        return read(BoundsResult, answer)

    async def update_envelope(
        self,
        envelope: Envelope,
        *,
        agent_name: str = "",
        output: Mapping[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> Envelope:
        """See :meth:`Client.update_envelope`."""
        message = request.update_envelope(envelope, agent_name, output, usage)
        if message is not None:
            envelope.become(envelope_of(await self._ask((await self._stub()).UpdateEnvelope, message)))
        return envelope

    async def execute_pipeline(
        self,
        envelope: Envelope,
        thread_id: str = "",
        *,
        pipeline: PipelineLike | None = None,
        bounds: Bounds | None = None,
    ) -> AsyncGenerator[ExecutionEvent, None]:
        """See :meth:`Client.execute_pipeline`."""
        await self._save(envelope)
        message = request.execute_pipeline(envelope, thread_id, pipeline, bounds)
        async for event in self._stream((await self._stub()).ExecutePipeline, message):
            if event.envelope is not None:
                envelope.become(event.envelope)
            yield event

    async def execute_agent(
        self,
        envelope: Envelope,
        agent_name: str = "",
        *,
        agent: Mapping[str, Any] | bytes | None = None,
        timeout: float | None = None,
    ) -> AgentResult:
        """See :meth:`Client.execute_agent`."""
        await self._save(envelope)
        message = request.execute_agent(envelope, agent_name, agent)
        result = agent_result_of(await self._ask((await self._stub()).ExecuteAgent, message, timeout))
        envelope.become(result.envelope)
        return result

    async def create_checkpoint(
        self,
        envelope: Envelope | str | None = None,
        label: str = "",
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Checkpoint:
        """See :meth:`Client.create_checkpoint`."""
        message = pb.CheckpointRequest(ref=request.ref(envelope, thread_id, run_id), label=label)
        answer = await self._ask((await self._stub()).CreateCheckpoint, message)
        return read(Checkpoint, answer)

    async def rollback(
        self,
        envelope: Envelope | str | None = None,
        *,
        checkpoint_id: str | None = None,
        stage: str | None = None,
        outputs: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        bounds: Bounds | None = None,
        fork: bool = False,
        new_thread_id: str | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Envelope:
        """See :meth:`Client.rollback`."""
        of = request.ref(envelope, thread_id, run_id)
        message = request.rollback(of, checkpoint_id, stage, outputs, metadata, bounds, fork, new_thread_id)
        return envelope_of(await self._ask((await self._stub()).RollbackToCheckpoint, message))

    async def resume(
        self,
        envelope: Envelope | str | None = None,
        *,
        interrupt_id: str = "",
        text: str | None = None,
        approved: bool | None = None,
        decision: str | None = None,
        data: Any = None,
        note: str | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[ExecutionEvent, None]:
        """See :meth:`Client.resume`."""
        of = request.ref(envelope, thread_id, run_id)
        message = request.resume(of, interrupt_id, text, approved, decision, data, note)
        async for event in self._stream((await self._stub()).ResumePipeline, message):
            yield event

    async def cancel(
        self,
        envelope: Envelope | str | None = None,
        *,
        reason: str = "",
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Envelope:
        """See :meth:`Client.cancel`."""
        message = pb.CancelRequest(ref=request.ref(envelope, thread_id, run_id), reason=reason)
        return envelope_of(await self._ask((await self._stub()).Cancel, message))

    async def watch(
        self,
        envelope: Envelope | str | None = None,
        *,
        after_seq: int = 0,
        follow: bool = True,
        reconnect: bool = True,
        transients: bool = False,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[ExecutionEvent, None]:
        """See :meth:`Client.watch`."""
        watching = Watching(request.ref(envelope, thread_id, run_id), after_seq, follow, reconnect, transients)
        while True:
            try:
                async for event in self._stream((await self._stub()).Watch, watching.request()):
                    watching.saw(event)
                    yield event
                return
            except TipstaffError as error:
                await asyncio.sleep(watching.delay_after(error))

    async def get_state(
        self,
        envelope: Envelope | str | None = None,
        *,
        checkpoint_id: str | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Envelope:
        """See :meth:`Client.get_state`."""
        of = request.ref(envelope, thread_id, run_id)
        message = pb.GetStateRequest(ref=of, checkpoint_id=checkpoint_id)
        return envelope_of(await self._ask((await self._stub()).GetState, message))

    async def list_checkpoints(
        self, envelope: Envelope | str | None = None, *, thread_id: str | None = None, run_id: str | None = None
    ) -> list[Checkpoint]:
        """See :meth:`Client.list_checkpoints`."""
        message = pb.ListCheckpointsRequest(ref=request.ref(envelope, thread_id, run_id))
        found: list[Checkpoint] = []
        while True:
            page = await self._ask((await self._stub()).ListCheckpoints, message)
            found += [read(Checkpoint, item) for item in page.checkpoints]
            if not page.next_page_token:
                return found
            message.page_token = page.next_page_token

    async def list_transitions(
        self, envelope: Envelope | str | None = None, *, thread_id: str | None = None, run_id: str | None = None
    ) -> list[Transition]:
        """See :meth:`Client.list_transitions`."""
        message = pb.ListTransitionsRequest(ref=request.ref(envelope, thread_id, run_id))
        found: list[Transition] = []
        while True:
            page = await self._ask((await self._stub()).ListTransitions, message)
            found += [read(Transition, item) for item in page.transitions]
            if not page.next_page_token:
                return found
            message.page_token = page.next_page_token

    async def list_runs(
        self, *, status: Sequence[str] = (), thread_id: str = "", project_dir: str = ""
    ) -> AsyncGenerator[RunSummary, None]:
        """See :meth:`Client.list_runs`."""
        message = pb.ListRunsRequest(page_size=200, status=status, thread_id=thread_id, project_dir=project_dir)
        while True:
            page = await self._ask((await self._stub()).ListRuns, message)
            for item in page.runs:
                yield read(RunSummary, item)
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    async def list_threads(self) -> AsyncGenerator[Thread, None]:
        """See :meth:`Client.list_threads`."""
        message = pb.ListThreadsRequest(page_size=200)
        while True:
            page = await self._ask((await self._stub()).ListThreads, message)
            for item in page.threads:
                yield read(Thread, item)
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    async def list_interrupts(self, *, kinds: Sequence[str] = ()) -> AsyncGenerator[PendingInterrupt, None]:
        """See :meth:`Client.list_interrupts`."""
        message = pb.ListInterruptsRequest(page_size=200, kinds=kinds)
        while True:
            page = await self._ask((await self._stub()).ListInterrupts, message)
            for item in page.interrupts:
                yield read(PendingInterrupt, item)
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    async def connect(self) -> None:
        """See :meth:`Client.connect`."""
        async with self._connecting:
            if self._channel is None:
                self._channel = await self._open()

    async def close(self) -> None:
        """See :meth:`Client.close`."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def __aenter__(self) -> AsyncClient:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(self) -> grpc.aio.Channel:
        channel = self._target.async_channel()
        try:
            await asyncio.wait_for(channel.channel_ready(), connection.CONNECT_SECONDS)
        except asyncio.TimeoutError:
            await channel.close()
            raise self._target.absent() from None
        return channel

    async def _stub(self) -> core_pb2_grpc.CoreServiceAsyncStub:
        await self.connect()
        assert self._channel is not None
        return core_pb2_grpc.CoreServiceStub(self._channel)

    async def _save(self, envelope: Envelope) -> None:
        message = request.unsaved(envelope)
        if message is not None:
            envelope.become(envelope_of(await self._ask((await self._stub()).UpdateEnvelope, message)))

    async def _ask(
        self, call: grpc.aio.UnaryUnaryMultiCallable[Request, Response], message: Request, timeout: float | None = None
    ) -> Response:
        try:
            return await call(message, timeout=timeout or self._timeout, metadata=self._target.metadata)
        except grpc.RpcError as error:
            raise from_call(error, waited=True) from None

    async def _stream(
        self, call: grpc.aio.UnaryStreamMultiCallable[Request, pb.ExecutionEvent], message: Request
    ) -> AsyncGenerator[ExecutionEvent, None]:
        stream = call(message, metadata=self._target.metadata)
        try:
            async for item in stream:
                yield event_of(item)
        except grpc.RpcError as error:
            raise from_call(error) from None
        finally:
            stream.cancel()
