"""Where a watcher is, over every connection it needs."""

from __future__ import annotations

import time

from tipstaff.backoff import Backoff
from tipstaff.core.v1 import core_pb2 as pb
from tipstaff.errors import ServerUnavailable, TipstaffError
from tipstaff.event import ExecutionEvent

PATIENCE_SECONDS = 60.0
"""How long a watcher waits for a server that has gone away."""


class Watching:
    """Says what to ask for next, and whether to ask again after an error."""

    def __init__(self, of: pb.RunRef, after_seq: int, follow: bool, reconnect: bool, transients: bool) -> None:
        self._ref, self._seq, self._follow, self._reconnect = of, after_seq, follow, reconnect
        self._transients = transients
        self._backoff = Backoff()
        self._heard = time.monotonic()

    def request(self) -> pb.WatchRequest:
        return pb.WatchRequest(
            ref=self._ref, after_seq=self._seq, follow=self._follow, transients=self._transients
        )

    def saw(self, event: ExecutionEvent) -> None:
        """From here on the same run is meant, whichever is the newest by then: a seq
        has a meaning in one journal alone."""
        if not event.transient:
            self._ref, self._seq = pb.RunRef(run_id=event.run_id), event.seq
        self._heard = time.monotonic()
        self._backoff.reset()

    def delay_after(self, error: TipstaffError) -> float:
        """How long to wait before asking again; raises the error if that is no use."""
        lost = isinstance(error, ServerUnavailable)
        if not (lost and self._reconnect and time.monotonic() - self._heard < PATIENCE_SECONDS):
            raise error
        return self._backoff.seconds()
