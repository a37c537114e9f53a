"""Edits that are a setting of the pipeline: the line to change instead, where the code has a word for it.

    for suggestion in suggest("retraining", config, overrides, merged.edits):
        print(suggestion)
    # epochs: 20 -> 30   in retraining.yaml (or --set epochs=30)

Nothing is guessed: a setting is only suggested when compiling with it puts the edited value in the edited place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from drivetrain.authoring.loading import load
from drivetrain.authoring.settings import Settings
from drivetrain.base.errors import UserError
from drivetrain.spec.deployment import Deployment
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document.difference.change import Change
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.meaning import equal
from drivetrain.targets.sagemaker.document.difference.value_words import hidden, masked, shown
from drivetrain.targets.sagemaker.settings import NAME, settings_of

# Compiling takes some 20 ms; after so many edits the user reads the patch anyway.
MAX_COMPILES = 60

Compile = Callable[[Sequence[str]], Mapping[str, Any]]
"""Overrides (`epochs=30`) -> the definition that the code alone gives with them; raises UserError where it cannot."""


@dataclass(frozen=True)
class Suggestion:
    """A setting that says what was edited."""

    setting: str
    """As in the file, `epochs`, and with dots for what is nested, `deployment.targets.sagemaker.region`."""
    old: Any
    new: str
    edits: tuple[Change, ...]
    """The edits that are then no longer needed."""
    also: tuple[Change, ...]
    """Further changes by the setting, which were not edited."""
    file: str
    """The settings file to write it in."""

    def __str__(self) -> str:
        line = f"{self.setting}: {shown(self.old)} -> {shown(self.new)}   in {self.file} (or --set {self.override})"
        others = list(dict.fromkeys(change.step or change.where for change in self.also))
        return line + (f"; it also changes {', '.join(others)}" if others else "")

    @property
    def override(self) -> str:
        """The text after --set."""
        return f"{self.setting}={self.new}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object; edits by their places."""
        return {
            "setting": self.setting,
            "old": hidden(self.old, (self.setting,)),
            "new": hidden(self.new, (self.setting,)),
            "file": self.file,
            "edits": [edit.where for edit in self.edits],
            "also": [masked(change).to_json() for change in self.also],
        }


def suggest(
    target: str, config: Path | None, overrides: Sequence[str], edits: Iterable[Change]
) -> tuple[Suggestion, ...]:
    """The settings of a pipeline that stand for edits; a pipeline without settings of its own has none.

    Raises:
        UserError: the pipeline cannot be built as it is.
    """
    loaded = load(target, config, overrides)

    def compile_with(more: Sequence[str]) -> Mapping[str, Any]:
        changed = load(target, config, [*overrides, *more])
        return compile_pipeline(changed.pipeline, changed.source, changed.base, here=True).definition

    named = Path(target.partition(":")[0])
    file = config.name if config is not None else f"{named.stem}.yaml"
    return find(loaded.settings, edits, compile_with, file)


def find(settings: Settings, edits: Iterable[Change], compile_with: Compile, file: str) -> tuple[Suggestion, ...]:
    """The settings that stand for edits, in the order of the edits.

    Raises:
        UserError: the code cannot be compiled as it is.
    """
    fields = dict(_scalars(settings))
    given = list(edits)
    code: Mapping[str, Any] | None = None
    found: list[Suggestion] = []
    tried: dict[tuple[str, str], Suggestion | None] = {}
    for edit in given:
        if any(edit in suggestion.edits for suggestion in found) or not isinstance(edit.new, str | int | float):
            continue
        value = _text(edit.new)
        fitting = [name for name, now in fields.items() if _takes(now, value) and _text(now) == _text(edit.old)]
        exact: list[Suggestion] = []
        for name in fitting:
            if (name, value) not in tried and len(tried) < MAX_COMPILES:
                code = compile_with(()) if code is None else code
                tried[name, value] = _tried(name, fields[name], value, given, code, compile_with, file)
            suggestion = tried.get((name, value))
            if suggestion is not None and edit in suggestion.edits:
                exact.append(suggestion)
        if exact:
            found.append(min(exact, key=lambda suggestion: len(suggestion.also)))
    return tuple(found)


def _tried(
    name: str, now: Any, value: str, edits: list[Change], code: Mapping[str, Any], compile_with: Compile, file: str
) -> Suggestion | None:
    """Say what a setting would change; None when it may not have this value."""
    try:
        changes = differences(code, compile_with([f"{name}={value}"]))
    except UserError:
        return None
    edited = {edit.place: edit for edit in edits}
    meant = [c for c in changes if c.place in edited and equal(edited[c.place].new, c.new)]
    also = tuple(change for change in changes if change not in meant)
    return Suggestion(name, now, value, tuple(edited[change.place] for change in meant), also, file)


def _scalars(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name -> value of the scalar settings, which --set takes, including `deployment.targets.sagemaker.*`."""
    if isinstance(settings, Deployment):
        yield from _scalars(settings_of(settings), f"{prefix}targets.{NAME}.")
        return
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _scalars(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float):
            yield prefix + name, value


def _text(value: Any) -> str:
    """A value as --set takes it; 20 and 20.0 are one number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _takes(now: Any, value: str) -> bool:
    """Return True if a setting that has this value could have the other one."""
    if isinstance(now, bool):
        return value in ("true", "false")
    if isinstance(now, int | float):
        try:
            float(value)
        except ValueError:
            return False
    return True
