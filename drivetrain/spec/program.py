"""What a step runs: a component or a script, and what stands in a script's arguments for its folders."""

from __future__ import annotations

from typing import Literal

from drivetrain.spec.frozen import Frozen

MODEL_LIBRARIES = frozenset(
    ("catboost", "jax", "keras", "lightgbm", "sklearn", "tensorflow", "torch", "transformers", "xgboost")
)
"""By their imports: the libraries by which models are made, which decide who can serve them."""


class Program(Frozen, defer_build=False):
    """What runs: a component (`module:function`) or a script of the user's (a path below the source folder)."""

    kind: Literal["component", "script"]
    target: str
    needs: tuple[str, ...] = ()
    """Distributions that the program imports; those the image lacks travel with the code."""
    libraries: tuple[str, ...] = ()
    """Those of MODEL_LIBRARIES that a component's function imports."""


class FolderPath(Frozen):
    """In a script's arguments: the place where the platform puts this input or collects this output."""

    kind: Literal["folder"] = "folder"
    flow: Literal["input", "output"]
    name: str
