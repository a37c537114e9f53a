"""Quantities of Kubernetes: `500m` CPUs, `1.5Gi` bytes."""

from __future__ import annotations

import re

_QUANTITY = re.compile(
    r"(?P<number>\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?P<unit>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_UNITS = {
    **{"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18},
    **{f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTPE", 1)},
}
ALLOWED = "Allowed: a number, as in 2, 500m, 512Mi, 1.5Gi, 4G."


def amount(text: str) -> float | None:
    """The number that a quantity says; None where it is none."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        return None
    unit = found["unit"] or ""
    return float(found["number"]) * (_UNITS[unit] if unit in _UNITS else float(f"1{unit}"))
