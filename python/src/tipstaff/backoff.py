"""How long to wait before the next attempt to reach a server."""

from __future__ import annotations

SHORTEST, LONGEST = 0.5, 10.0


class Backoff:
    """Waits that double, from half a second to ten."""

    def __init__(self) -> None:
        self._next = SHORTEST

    def reset(self) -> None:
        """The server was reached."""
        self._next = SHORTEST

    def seconds(self) -> float:
        """How long to wait this time."""
        now, self._next = self._next, min(2 * self._next, LONGEST)
        return now
