"""The client that waits for its answers.

It holds no state and decides nothing: each method is one call to the server, which
counts, checks and runs. :mod:`tipstaff.aio` has the same methods for asyncio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc

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


class Client:
    """A connection to a Tipstaff server.

    ``address``: argument, ``TIPSTAFF_ADDRESS``, ``localhost:50051``. ``token``:
    argument, ``TIPSTAFF_TOKEN``, what ``tipstaff serve --token`` prints in the
    workspace (``TIPSTAFF_WORKSPACE``, else the current folder).
    ``timeout`` is that of calls which are answered once; streams last as long as they
    last. It connects when it is entered or first used, and raises
    :class:`ServerUnavailable` if nobody answers.

    A run is named by its Envelope (or that one's id), its thread or its own id. With the
    first two the newest run is meant.
    """

    def __init__(
        self, address: str | None = None, *, token: str | None = None, tls: TLS | None = None, timeout: float = 30.0
    ) -> None:
        self._target = connection.find(address, token, tls)
        self._timeout = timeout
        self._channel: grpc.Channel | None = None
        self._connecting = threading.Lock()

    def create_envelope(
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
        """Make a draft. The same ``request_id`` and content again give the same one."""
        message = request.create_envelope(
            raw_input, user_id, session_id, request_id, metadata, stage_order, pipeline, goals
        )
        return envelope_of(self._ask(self._stub.CreateEnvelope, message))

    def check_bounds(self, envelope: Envelope | str) -> BoundsResult:
        """Ask whether any stage could start now, and what is left. What was changed in
        the Envelope and is not saved makes no difference."""
        answer = self._ask(self._stub.CheckBounds, request.bounds_of(envelope))
        return read(BoundsResult, answer)

    def update_envelope(
        self,
        envelope: Envelope,
        *,
        agent_name: str = "",
        output: Mapping[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> Envelope:
        """Save what was changed in a draft's outputs and metadata; with ``agent_name``
        and ``output`` also that agent's output, with ``usage`` what was used outside.

        The Envelope is brought up to date and returned. If somebody else has changed
        the draft since it was read, it is :class:`Aborted` and nothing is saved.
        """
        message = request.update_envelope(envelope, agent_name, output, usage)
        if message is not None:
            envelope.become(envelope_of(self._ask(self._stub.UpdateEnvelope, message)))
        return envelope

    def execute_pipeline(
        self,
        envelope: Envelope,
        thread_id: str = "",
        *,
        pipeline: PipelineLike | None = None,
        bounds: Bounds | None = None,
    ) -> Iterator[ExecutionEvent]:
        """Start a draft, or continue an interrupted run, and yield its events until it
        ends or waits for a decision. It starts with the first event that is asked for.

        Local changes are saved first. With the final event the Envelope is brought up
        to date. Whoever stops reading loses the events, not the run: :meth:`watch`.
        """
        self._save(envelope)
        message = request.execute_pipeline(envelope, thread_id, pipeline, bounds)
        for event in self._stream(self._stub.ExecutePipeline, message):
            if event.envelope is not None:
                envelope.become(event.envelope)
            yield event

    def execute_agent(
        self,
        envelope: Envelope,
        agent_name: str = "",
        *,
        agent: Mapping[str, Any] | bytes | None = None,
        timeout: float | None = None,
    ) -> AgentResult:
        """Run one agent on a draft: one of its pipeline, or the one that ``agent``
        describes. Local changes are saved first, and the Envelope is brought up to
        date. ``timeout``: the client's."""
        self._save(envelope)
        message = request.execute_agent(envelope, agent_name, agent)
        result = agent_result_of(self._ask(self._stub.ExecuteAgent, message, timeout))
        envelope.become(result.envelope)
        return result

    def create_checkpoint(
        self,
        envelope: Envelope | str | None = None,
        label: str = "",
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Checkpoint:
        """Label the newest checkpoint of a run."""
        message = pb.CheckpointRequest(ref=request.ref(envelope, thread_id, run_id), label=label)
        answer = self._ask(self._stub.CreateCheckpoint, message)
        return read(Checkpoint, answer)

    def rollback(
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
        """Make a new run from a checkpoint, or from the newest one of a stage. Data is
        restored, with these edits; counters are not. Nothing starts by itself."""
        of = request.ref(envelope, thread_id, run_id)
        message = request.rollback(of, checkpoint_id, stage, outputs, metadata, bounds, fork, new_thread_id)
        return envelope_of(self._ask(self._stub.RollbackToCheckpoint, message))

    def resume(
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
    ) -> Iterator[ExecutionEvent]:
        """Answer an open interrupt, if there is anything of an answer, go on with the
        run and yield its events. ``interrupt_id`` may be left out if one is open."""
        of = request.ref(envelope, thread_id, run_id)
        message = request.resume(of, interrupt_id, text, approved, decision, data, note)
        yield from self._stream(self._stub.ResumePipeline, message)

    def cancel(
        self,
        envelope: Envelope | str | None = None,
        *,
        reason: str = "",
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Envelope:
        """End a run. One that has ended is returned as it ended."""
        message = pb.CancelRequest(ref=request.ref(envelope, thread_id, run_id), reason=reason)
        return envelope_of(self._ask(self._stub.Cancel, message))

    def watch(
        self,
        envelope: Envelope | str | None = None,
        *,
        after_seq: int = 0,
        follow: bool = True,
        reconnect: bool = True,
        transients: bool = False,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Iterator[ExecutionEvent]:
        """Yield the events of a run after a seq until it ends or waits; without
        ``follow`` only those there are. It never starts, ends or slows the run.

        With ``transients`` what models say and how far calls have come is also told,
        while the run is driven by that server; some of it may be missed.
        With ``reconnect`` a server that goes away is waited for, up to a minute, and
        the events go on where they stopped.
        """
        watching = Watching(request.ref(envelope, thread_id, run_id), after_seq, follow, reconnect, transients)
        while True:
            try:
                for event in self._stream(self._stub.Watch, watching.request()):
                    watching.saw(event)
                    yield event
                return
            except TipstaffError as error:
                time.sleep(watching.delay_after(error))

    def get_state(
        self,
        envelope: Envelope | str | None = None,
        *,
        checkpoint_id: str | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> Envelope:
        """The Envelope as it is now, or as it was at a checkpoint."""
        of = request.ref(envelope, thread_id, run_id)
        message = pb.GetStateRequest(ref=of, checkpoint_id=checkpoint_id)
        return envelope_of(self._ask(self._stub.GetState, message))

    def list_checkpoints(
        self, envelope: Envelope | str | None = None, *, thread_id: str | None = None, run_id: str | None = None
    ) -> list[Checkpoint]:
        """The checkpoints of a run, oldest first."""
        message = pb.ListCheckpointsRequest(ref=request.ref(envelope, thread_id, run_id))
        found: list[Checkpoint] = []
        while True:
            page = self._ask(self._stub.ListCheckpoints, message)
            found += [read(Checkpoint, item) for item in page.checkpoints]
            if not page.next_page_token:
                return found
            message.page_token = page.next_page_token

    def list_transitions(
        self, envelope: Envelope | str | None = None, *, thread_id: str | None = None, run_id: str | None = None
    ) -> list[Transition]:
        """The transitions of a run, oldest first, those before a rollback included."""
        message = pb.ListTransitionsRequest(ref=request.ref(envelope, thread_id, run_id))
        found: list[Transition] = []
        while True:
            page = self._ask(self._stub.ListTransitions, message)
            found += [read(Transition, item) for item in page.transitions]
            if not page.next_page_token:
                return found
            message.page_token = page.next_page_token

    def list_runs(
        self, *, status: Sequence[str] = (), thread_id: str = "", project_dir: str = ""
    ) -> Iterator[RunSummary]:
        """The runs that the caller may see, newest first. A page is read when it is
        needed."""
        message = pb.ListRunsRequest(page_size=200, status=status, thread_id=thread_id, project_dir=project_dir)
        while True:
            page = self._ask(self._stub.ListRuns, message)
            for item in page.runs:
                yield read(RunSummary, item)
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    def list_threads(self) -> Iterator[Thread]:
        """The caller's threads, that with the newest run first."""
        message = pb.ListThreadsRequest(page_size=200)
        while True:
            page = self._ask(self._stub.ListThreads, message)
            for item in page.threads:
                yield read(Thread, item)
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    def list_interrupts(self, *, kinds: Sequence[str] = ()) -> Iterator[PendingInterrupt]:
        """What waits for a decision in runs that the caller may see, oldest first."""
        message = pb.ListInterruptsRequest(page_size=200, kinds=kinds)
        while True:
            page = self._ask(self._stub.ListInterrupts, message)
            for item in page.interrupts:
                yield read(PendingInterrupt, item)
            if not page.next_page_token:
                return
            message.page_token = page.next_page_token

    def connect(self) -> None:
        """Reach the server now rather than with the first call."""
        with self._connecting:
            if self._channel is None:
                self._channel = self._open()

    def close(self) -> None:
        """Let the connection go. The next call would make a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def __enter__(self) -> Client:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> grpc.Channel:
        channel = self._target.channel()
        try:
            grpc.channel_ready_future(channel).result(timeout=connection.CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            channel.close()
            raise self._target.absent() from None
        return channel

    @property
    def _stub(self) -> core_pb2_grpc.CoreServiceStub:
        self.connect()
        assert self._channel is not None
        return core_pb2_grpc.CoreServiceStub(self._channel)

    def _save(self, envelope: Envelope) -> None:
        message = request.unsaved(envelope)
        if message is not None:
            envelope.become(envelope_of(self._ask(self._stub.UpdateEnvelope, message)))

    def _ask(
        self, call: grpc.UnaryUnaryMultiCallable[Request, Response], message: Request, timeout: float | None = None
    ) -> Response:
        try:
            return call(message, timeout=timeout or self._timeout, metadata=self._target.metadata)
        except grpc.RpcError as error:
            raise from_call(error, waited=True) from None

    def _stream(
        self, call: grpc.UnaryStreamMultiCallable[Request, pb.ExecutionEvent], message: Request
    ) -> Iterator[ExecutionEvent]:
        stream = call(message, metadata=self._target.metadata)
        try:
            for item in stream:
                yield event_of(item)
        except grpc.RpcError as error:
            raise from_call(error) from None
        finally:
            stream.cancel()
