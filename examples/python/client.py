"""Run ../pipelines/python.yaml on a server and tell what happens.

    tipstaff serve &
    python agents.py &
    python client.py 'It was a dark and stormy night, and nobody was out.'
"""

from __future__ import annotations

import sys
from pathlib import Path

from tipstaff import Client, EventType

PIPELINE = Path(__file__).resolve().parents[1] / "pipelines" / "python.yaml"


def main(text: str) -> int:
    with Client() as client:
        envelope = client.create_envelope(text, metadata={"for": "the front page"}, pipeline=PIPELINE)
        client.check_bounds(envelope).raise_if_exceeded()

        for event in client.execute_pipeline(envelope):
            if event.type == EventType.STAGE_COMPLETED:
                print(f"{event.stage} {event.payload['output']}")
            elif event.type == EventType.INTERRUPT_RAISED:
                print(f"{event.stage} asks: {event.payload['question']}")

    print(f"{envelope.outcome}, gone back {envelope.iteration} times")
    return 0 if envelope.outcome == "completed" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
