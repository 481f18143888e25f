"""The JSON codec: numbers keep their digits, and what JSON lacks is refused."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from tipstaff import money, value


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        (b"1", 1),
        (b"1.0", 1.0),
        (b"-0.0", -0.0),
        (b"9007199254740993", 2**53 + 1),
        (b"1180591620717411303424", 2**70),
        (b"0.1", 0.1),
        (b"1.10", 1.1),
        (b"1e3", 1000.0),
        (b"0.1000000000000000000001", Decimal("0.1000000000000000000001")),
        (b"1e400", Decimal("1e400")),
        (b"1" * 5000, Decimal("1" * 5000)),
    ],
)
def test_a_number_keeps_its_value_and_kind(literal: bytes, expected: object) -> None:
    number = value.decode(literal)
    assert number == expected
    assert type(number) is type(expected)


@pytest.mark.parametrize(
    "content", [None, True, False, 0, -1, 2**64, 1.0, 1e300, Decimal("0.30000000000000000001"), "", "é\u2028", [], {}]
)
def test_what_is_encoded_comes_back(content: object) -> None:
    back = value.decode(value.encode({"it": [content]}))["it"][0]
    assert back == content
    assert type(back) is type(content)


def test_equal_values_have_equal_bytes() -> None:
    assert value.encode({"b": 1, "a": [1, 2]}) == value.encode({"a": (1, 2), "b": 1})
    assert len({value.encode(1), value.encode(1.0), value.encode(True)}) == 3


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ({"a": [0, float("nan")]}, "it.a[1]"),
        ({"a": float("inf")}, "it.a"),
        ({"a": Decimal("NaN")}, "it.a"),
        ({"a": {1: 2}}, "it.a"),
        ({"a": {"b": {1, 2}}}, "it.a.b"),
        ({"a": "\ud800"}, "it"),
    ],
)
def test_what_json_lacks_is_refused_with_its_place(content: object, where: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(where)}:"):
        value.encode(content, "it")


def test_depth_is_limited_as_the_server_limits_it() -> None:
    def nested(levels: int) -> Any:
        content: Any = 1
        for _ in range(levels):
            content = [content]
        return content

    value.encode(nested(value.MAX_DEPTH))
    with pytest.raises(ValueError, match="nested deeper"):
        value.encode(nested(value.MAX_DEPTH + 1))


def test_nan_is_not_read_either() -> None:
    with pytest.raises(ValueError, match="NaN"):
        value.decode(b'{"a": NaN}')


@pytest.mark.parametrize(("usd", "nano"), [("0.000000001", 1), (Decimal("5.00"), 5_000_000_000), (0, 0), ("1e3", 10**12)])
def test_money_is_exact(usd: Decimal | int | str, nano: int) -> None:
    assert money.to_nano(usd) == nano
    assert money.from_nano(nano) == Decimal(usd)


@pytest.mark.parametrize("usd", ["0.0000000001", "nan", 0.1, "much"])
def test_what_is_no_exact_amount_is_refused(usd: Any) -> None:
    with pytest.raises(ValueError, match="USD|exact"):
        money.to_nano(usd)
