"""JSON values as the wire carries them.

Numbers keep their digits: ints of any size are ints, and a number that no float
reproduces is a :class:`~decimal.Decimal`. ``1`` and ``1.0`` stay different. What JSON
does not have is refused with its place, never dropped or replaced.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

MAX_DEPTH = 64


def encode(value: object, where: str = "value") -> bytes:
    """The JSON of a value, with sorted keys: equal values have equal bytes.

    ``where`` is what errors call the value.
    """
    parts: list[str] = []
    _write(value, where, 0, parts)
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: a text in it is not Unicode: {error.reason}") from None


def decode(text: bytes) -> Any:
    """The value of a JSON text that the server has sent."""
    return json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_refuse)


def _write(value: object, where: str, depth: int, parts: list[str]) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"{where}: it is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, (bool, str)):
        parts.append(json.dumps(value, ensure_ascii=False))
    elif isinstance(value, int):
        parts.append(int.__repr__(value))
    elif isinstance(value, float):
        _finite(math.isfinite(value), value, where)
        parts.append(float.__repr__(value))
    elif isinstance(value, Decimal):
        _finite(value.is_finite(), value, where)
        parts.append(str(value))
    elif isinstance(value, Mapping):
        _write_object(value, where, depth, parts)
    elif isinstance(value, (list, tuple)):
        parts.append("[")
        for index, item in enumerate(value):
            parts.append("," if index else "")
            _write(item, f"{where}[{index}]", depth + 1, parts)
        parts.append("]")
    else:
        raise ValueError(f"{where}: JSON has no {type(value).__name__}")


def _write_object(value: Mapping[Any, object], where: str, depth: int, parts: list[str]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{where}: the key {key!r} is not a str")
    parts.append("{")
    for index, key in enumerate(sorted(value)):
        parts.append("," if index else "")
        parts.append(json.dumps(key, ensure_ascii=False) + ":")
        _write(value[key], f"{where}.{key}", depth + 1, parts)
    parts.append("}")


def _finite(is_finite: bool, value: object, where: str) -> None:
    if not is_finite:
        raise ValueError(f"{where}: JSON has no {value}")


def _integer(literal: str) -> int | Decimal:
    try:
        return int(literal)
    except ValueError:  # longer than Python lets an int be read from text
        return Decimal(literal)


def _number(literal: str) -> float | Decimal:
    number, exact = float(literal), Decimal(literal)
    return number if math.isfinite(number) and Decimal(repr(number)) == exact else exact


def _refuse(literal: str) -> Any:
    raise ValueError(f"JSON has no {literal}")
