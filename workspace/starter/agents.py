"""The stages of headline.yaml, as functions. The server keeps what they return, counts the
rounds, and decides which one is next; killed in between, nothing that has finished runs again.

    pip install tipstaff
    tipstaff run headline.yaml --host 'python3 agents.py' --text 'It was a dark and stormy night'
"""

from typing import Any

from tipstaff import AgentHost, Call, Result

LONGEST = 20

host = AgentHost()


@host.agent("write", effect="read")
def write(call: Call) -> dict[str, Any]:
    """A headline, shorter each time that the judge was not content."""
    words = str(call.input).split()
    return {"headline": " ".join(words[: max(1, 6 - 2 * len(call.envelope.feedback))])}


@host.agent("judge", effect="read")
def judge(call: Call) -> Result:
    length = len(call.input["headline"])
    if length > LONGEST:
        return Result({"verdict": "again"}, feedback=f"{length} characters are too many")
    return Result({"verdict": "fine"}, summary=f"{length} characters")


if __name__ == "__main__":
    host.run()
