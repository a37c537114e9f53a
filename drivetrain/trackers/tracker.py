"""The protocol of a tracker, and the settings by which it is found.

    local:
      trackers:
        mlflow: {uri: "http://127.0.0.1:5000", experiment: shop}
        wandb: {project: shop, mode: offline}
        tensorboard: {folder: tensorboard}

A tracker is a file in backends/; its name is the name in the settings.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from drivetrain.base.errors import UserError, did_you_mean

AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]


class TrackerSettings(BaseModel):
    """Settings of every tracker. Paths are made absolute, so that a run can be resumed from another folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_artifact_mb: float = Field(default=10.0, ge=0)
    """Outputs of steps up to this size are sent, with the run's page; of larger ones only their place is noted."""


class Point(NamedTuple):
    """A value of a metric. `position` is the training's step (or epoch, or the number of the value where the log says
    neither); `time` is in seconds since the epoch."""

    step: str
    name: str
    value: float
    position: int
    time: float


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """The run as a tracker is told of it when it begins. `started` is in seconds since the epoch, `page` is where the
    run's page will be."""

    id: str
    pipeline: str
    started: float
    page: Path
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


class Tracker(Protocol):
    """A run in a tracker. Any method may raise what its library raises: the caller says so, and tells it no more."""

    @property
    def id(self) -> str:
        """The id by which `connect` finds it again, as `earlier`."""
        ...

    @property
    def url(self) -> str:
        """The place where people find it: an address, or a folder."""
        ...

    def parameters(self, values: Mapping[str, str]) -> None:
        """Settings and parameters. Those that a resumed run has changed come again."""
        ...

    def metrics(self, points: Sequence[Point]) -> None:
        """Values as they were logged, in their order."""
        ...

    def results(self, values: Mapping[str, float]) -> None:
        """The numbers that the steps returned."""
        ...

    def artifact(self, name: str, path: Path) -> None:
        """A file or a folder of the run."""
        ...

    def end(self, status: str) -> None:
        """How it ended (a status of the ledger); everything must have arrived when this returns."""
        ...


def names() -> list[str]:
    """The trackers, by file name, sorted."""
    return sorted(path.stem for path in Path(__file__).parent.glob("backends/*.py") if path.stem[0] != "_")


def backend(name: str) -> Any:
    """The file of a tracker.

    Raises:
        UserError: there is no tracker of this name.
    """
    if name not in names():
        raise UserError(f"local.trackers: there is no tracker {name!r}. {did_you_mean(name, names())}")
    return importlib.import_module(f"drivetrain.trackers.backends.{name}")


def checked(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings of trackers, with absolute paths, as they are kept with a run.

    Raises:
        UserError: no such tracker or field, a wrong value, a package that is not installed, a password in an address.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, values in given.items():
        module = backend(name)
        try:
            settings: TrackerSettings = module.Settings.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            allowed = ", ".join(module.Settings.model_fields)
            said = first["msg"].removeprefix("Value error, ")
            raise UserError(f"local.trackers.{name}.{field}: {said}. Fields: {allowed}.") from None
        if importlib.util.find_spec(module.PACKAGE) is None:  # importing it takes a second
            raise UserError(
                f"local.trackers.{name} needs the package {module.PACKAGE}. Install it: "
                f"pip install 'drivetrain[{name}]'"
            )
        found[name] = settings.model_dump(mode="json")
    return found


def plain_name(name: str) -> str:
    """A name with the characters that every tracker takes."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "_-. /") else "_" for each in name)
