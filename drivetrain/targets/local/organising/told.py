"""What experiment trackers were told of a run, noted beside it (drivetrain/trackers tells them)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.local.home import Home, write_whole


@dataclass(kw_only=True)
class Told:
    """What a tracker was told of a run: its own id of it, where it shows it, up to which row of the metrics, whether of
    its end, and what went wrong, a sentence. `settings` say which tracker it was."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None
    url: str = ""
    row: int = 0
    ended: bool = False
    problem: str = ""

    @staticmethod
    def load(home: Home, execution: str, name: str) -> Told:
        """What is noted; nothing of a run of which no tracker was told."""
        try:
            return Told(**json.loads(_file(home, execution, name).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Told()

    def save(self, home: Home, execution: str, name: str) -> None:
        """Note it."""
        file = _file(home, execution, name)
        file.parent.mkdir(exist_ok=True)
        write_whole(file, json.dumps(asdict(self)))


def folder_of(home: Home, execution: str) -> Path:
    """Where it is noted, a file a tracker, with a log of the program that told it."""
    return home.run(execution) / ".trackers"


def _file(home: Home, execution: str, name: str) -> Path:
    return folder_of(home, execution) / f"{name}.json"


def links_of(home: Home, execution: str) -> dict[str, str]:
    """Tracker -> where it shows the run."""
    files = sorted(folder_of(home, execution).glob("*.json"))
    found = {file.stem: Told.load(home, execution, file.stem).url for file in files}
    return {name: url for name, url in found.items() if url}


def trackers_of(home: Home, execution: str) -> dict[str, dict[str, Any]]:
    """The trackers that a run is told to, with their settings; none where its folder was removed."""
    from drivetrain.targets.local.request import Request

    try:
        given = Request.load(home.run(execution)).options.trackers
    except UserError:
        return {}
    return {name: dict(values) for name, values in given.items()}
