"""Amounts of money: exact decimals in USD here, whole billionths on the wire."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation

# Wide enough for every amount the wire can carry, and refuses to round.
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation])


def from_nano(nano: int) -> Decimal:
    """Billionths of a dollar as dollars."""
    amount = Decimal(nano).scaleb(-9, _EXACT).normalize(_EXACT)
    return amount.quantize(Decimal(1)) if amount == amount.to_integral_value() else amount


def to_nano(amount: Decimal | int | str) -> int:
    """Dollars as billionths of a dollar. A float would already have been rounded."""
    if isinstance(amount, (bool, float)):
        raise ValueError(f"{amount!r} is no exact amount: write it as a str, like '0.25'")
    try:
        nano = Decimal(amount).scaleb(9, _EXACT)
        return int(nano.to_integral_exact(context=_EXACT))
    except (Inexact, InvalidOperation, OverflowError, ValueError):
        raise ValueError(f"{amount!r} USD cannot be counted in billionths") from None
