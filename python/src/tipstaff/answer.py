"""What a function returned or raised, as the result that the server gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tipstaff import value
from tipstaff.call import Interrupt, Result, StageError
from tipstaff.connection import MAX_MESSAGE
from tipstaff.core.v1 import core_pb2 as pb

_HEADROOM = 1 << 10  # of a message, for what goes around a result
_MOST_TEXT = MAX_MESSAGE // 2  # bytes of the text of an error; the server shows its two ends and keeps all of it


def returned(call_id: str, content: object) -> pb.Result:
    """The result of a function that came to its end."""
    if isinstance(content, Mapping):
        content = Result(output=content)
    if not isinstance(content, Result):
        return failed(call_id, "output_invalid", f"the agent returned {type(content).__name__}: a dict is needed")
    return _answer(call_id, content.output, content.control(), content)


def raised(call_id: str, error: BaseException) -> pb.Result:
    """The result of a function that raised. What it does not say of itself is final."""
    if isinstance(error, Interrupt):
        return _answer(call_id, error.output, {"interrupt": error.request})
    if isinstance(error, StageError):
        return failed(call_id, error.code, error.message, error.retryable)
    return failed(call_id, "agent_error", f"{type(error).__name__}: {error}")


def failed(call_id: str, code: str, message: str, retryable: bool = False) -> pb.Result:
    text = message.encode("utf-8", "replace")  # an exception may hold what is no text
    if len(text) > _MOST_TEXT:
        text = text[: _MOST_TEXT // 2] + f"\n[… {len(text)} bytes in all …]\n".encode() + text[-_MOST_TEXT // 2 :]
    message = text.decode("utf-8", "ignore")
    return pb.Result(call_id=call_id, error=pb.AgentError(code=code, message=message, retryable=retryable))


def _answer(
    call_id: str, output: Mapping[str, Any], control: dict[str, Any], result: Result | None = None
) -> pb.Result:
    try:
        answer = pb.Result(
            call_id=call_id,
            output=value.encode(output, "output"),
            control=value.encode(control, "control") if control else None,
            usage=result.usage.message() if result else None,
        )
    except ValueError as error:
        return failed(call_id, "output_invalid", str(error))
    if answer.ByteSize() > MAX_MESSAGE - _HEADROOM:
        return failed(call_id, "output_too_large", f"{answer.ByteSize()} bytes do not fit into a message")
    return answer
