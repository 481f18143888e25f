"""Five functions that write a headline, as stages of ../pipelines/python.yaml.

Each would call a model in earnest. They run wherever this program runs; the server keeps
the state, counts, and decides who is next.
"""

from __future__ import annotations

from typing import Any

from tipstaff import AgentHost, AsyncCall, Call, Interrupt, Result

LONGEST = 30

host = AgentHost()


@host.agent("perception", effect="read", concurrency=4)
def perception(call: Call) -> dict[str, Any]:
    """The words of the text."""
    words = str(call.input).split()
    if not words:
        raise Interrupt("clarification", question="Of what text do you want a headline?")
    return {"words": words}


@host.agent("intent", effect="read", concurrency=4)
def intent(call: Call) -> dict[str, Any]:
    """How many words to aim for: fewer each time the critic was not content."""
    complaints = [feedback for feedback in call.envelope.feedback if feedback.target == "intent"]
    return {"words": max(1, min(len(call.input["words"]), 8 - 3 * len(complaints)))}


@host.agent("plan", effect="read", concurrency=4)
async def plan(call: AsyncCall) -> dict[str, Any]:
    return {"steps": [{"keep": call.input["words"]}, {"capitalise": True}]}


@host.agent("execute", effect="once")
def execute(call: Call) -> dict[str, Any]:
    words: list[str] = call.input["words"]
    for step in call.input["steps"]:
        if "keep" in step:
            words = words[: step["keep"]]
        if step.get("capitalise"):
            words = [word.capitalize() for word in words]
    return {"headline": " ".join(words)}


@host.agent("critic", effect="read", concurrency=4)
def critic(call: Call) -> Result:
    length = len(call.input["headline"])
    if length > LONGEST:
        return Result({"verdict": "reintent"}, feedback=f"{length} characters are too many")
    return Result({"verdict": "approved"}, summary=f"{length} characters")


if __name__ == "__main__":
    host.run()
