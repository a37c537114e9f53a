"""How many functions hand a step's parameter on, from the author's word to the text of the definition."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import drivetrain
from drivetrain import Cluster, Pipeline, step
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

ROOT = Path(drivetrain.__file__).resolve().parents[1]
OURS = tuple(str(ROOT / folder) for folder in ("drivetrain", "components"))
EPOCHS = 31337
# They may only shrink: whoever reads how a value travels reads these.
MOST_FUNCTIONS, MOST_FILES = 10, 8


def holds(value: Any, depth: int = 3) -> bool:
    """Return True if a value is that of the parameter, or has it within a few levels."""
    if isinstance(value, bool) or depth < 0:
        return False
    if isinstance(value, int | str):
        return str(EPOCHS) in str(value)
    parts: list[Any] = list(value.values()) if isinstance(value, Mapping) else []  # type: ignore[reportUnknownArgumentType]
    parts += value if isinstance(value, list | tuple) else ()  # type: ignore[reportUnknownArgumentType]
    return any(holds(part, depth - 1) for part in parts)


def test_few_functions_pass_a_parameter_on() -> None:
    handed_on: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "return" and code.co_filename.startswith(OURS) and code.co_name[0] != "<" and holds(result):
            handed_on.add((code.co_filename.removeprefix(str(ROOT)), code.co_qualname))

    sys.setprofile(look)
    try:
        data = step(prepare_data, name="prepare", raw="example:digits", key="id", label="label")
        fit = step(
            train,
            name="train",
            train=data["train"],
            validation=data["validation"],
            recipe="digits_cnn",
            strategy="single",
            epochs=EPOCHS,
            cluster=Cluster(processes=1),
        )
        text = compile_pipeline(Pipeline(name="example", steps=[data, fit])).text
    finally:
        sys.setprofile(None)
    assert str(EPOCHS) in text
    assert {"_Compiler.step", "Compiled.text"} <= {name for _, name in handed_on}
    assert len(handed_on) <= MOST_FUNCTIONS, sorted(handed_on)
    assert len({file for file, _ in handed_on}) <= MOST_FILES, sorted(handed_on)
