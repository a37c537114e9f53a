"""Check the values that a condition compares."""

from __future__ import annotations

# The type of a parameter or property -> what its values can be compared with.
_KIND_OF_TYPE = {"Integer": "number", "Float": "number", "String": "text", "Boolean": "truth value"}


def incomparable(left: str, right: str, *, ordered: bool) -> str | None:
    """Why values of two types (String, Integer, ...) cannot be compared; None where they can.

    Texts are ordered by their characters: only the rules for our own pipelines refuse that.
    """
    if (kind := _KIND_OF_TYPE.get(left)) is None or kind != _KIND_OF_TYPE.get(right):
        return f"compares {left} with {right}. Make both of one type."
    if ordered and kind == "truth value":
        return f"orders {left} values; only numbers have an order. Compare for equality."
    return None
