"""Reusable steps, one file each: the typed declaration and the program that runs in the container.

Only the standard library is imported here and at the top of every file of this folder, because a component travels
into every container; heavy libraries are imported inside the program that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drivetrain.steps import Checkpoints, Input, Output, Since, Value
from drivetrain.steps.declaration import Component, component

if TYPE_CHECKING:
    from drivetrain.base.bounds import Bounds
    from drivetrain.steps.card import Card

__all__ = ["Bounds", "Card", "Checkpoints", "Component", "Input", "Output", "Since", "Value", "component"]


def __getattr__(name: str) -> Any:
    """A name that few steps use is imported when it is asked for."""
    if name == "Bounds":
        from drivetrain.base.bounds import Bounds

        return Bounds
    if name == "Card":
        from drivetrain.steps.card import Card

        return Card
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
