"""Numbers as people read them."""

from __future__ import annotations


def number(value: float) -> str:
    """Four digits after the point, or as many as count: 0.9861, 12.3456, 0.00012."""
    if value == 0:
        return "0"
    size = abs(value)
    if 0.001 <= size < 1:
        return f"{value:.4f}"
    if size < 0.001:
        return f"{value:.2g}"
    return f"{value:.4g}" if size >= 1e6 else f"{value:,.6g}"


def signed(value: float) -> str:
    """A difference: +0.0083."""
    return number(value) if value <= 0 else f"+{number(value)}"


def count(amount: int, thing: str) -> str:
    """`1 sample`, `1,797 samples`."""
    return f"{amount:,} {thing}{'' if amount == 1 else 's'}"


def percent(share: float) -> str:
    """A share of 1, whole where it is: 95 %, 99.5 %."""
    return f"{100 * share:.4g} %"


def place(metric: str, name: str) -> str:
    """A metric and where it was measured: `accuracy`, `accuracy (site=north)`."""
    return f"{metric} ({name})" if name else metric
