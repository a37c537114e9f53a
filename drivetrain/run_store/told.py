"""Notes of what experiment trackers were told of a run, kept beside it (drivetrain/trackers tells them)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.run_store.home import Home, write_whole


@dataclass(kw_only=True)
class Told:
    """A tracker's state about a run: its own id of it, where it shows it, up to which row of the metrics, whether of
    its end, and what went wrong, a sentence. `settings` say which tracker it was."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None
    url: str = ""
    row: int = 0
    ended: bool = False
    problem: str = ""

    @staticmethod
    def load(home: Home, execution: str, name: str) -> Told:
        """Load the note; an empty one if no tracker was told of the run."""
        try:
            return Told(**json.loads(_file(home, execution, name).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Told()

    def save(self, home: Home, execution: str, name: str) -> None:
        """Note it."""
        file = _file(home, execution, name)
        file.parent.mkdir(exist_ok=True)
        write_whole(file, json.dumps(asdict(self)))


def _file(home: Home, execution: str, name: str) -> Path:
    return home.trackers(execution) / f"{name}.json"


def links_of(home: Home, execution: str) -> dict[str, str]:
    """Tracker -> where it shows the run."""
    files = sorted(home.trackers(execution).glob("*.json"))
    found = {file.stem: Told.load(home, execution, file.stem).url for file in files}
    return {name: url for name, url in found.items() if url}
