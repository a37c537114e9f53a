"""What was asked for, kept beside a run so that it can go on: the definition, its parameters, the options.

It lies in the run's folder, which only its owner may read, and not in the ledger: parameters may hold what nobody else
should see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.masking import Masking
from drivetrain.targets.local.execution.scope import resolve_known
from drivetrain.targets.local.home import write_whole
from drivetrain.targets.local.options import Options
from drivetrain.targets.sagemaker.document.expressions import ParameterScope

_DEFINITION, _REQUEST, _NO_RESUME = "definition.json", "request.json", "no-resume.txt"


@dataclass(frozen=True)
class Request:
    """A definition's text with the typed value of every parameter and the options."""

    text: str
    parameters: Mapping[str, Any]
    options: Options

    @property
    def definition_hash(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def hash(self) -> str:
        """Equal for requests that ask for the same run: pipeline, definition, parameters, selected steps and the
        execution that the others are taken from."""
        options = self.options
        selected = [sorted(options.selected), options.selected_from] if options.selected else []
        text = json.dumps([self.options.pipeline, self.definition_hash, self.parameters, *selected], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def masking(self) -> Masking:
        """For the secrets that the run was given: in its parameters, and in the definition as far as it is known."""
        known = resolve_known(json.loads(self.text), ParameterScope(self.parameters))
        return Masking.of(self.parameters, known)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _DEFINITION, self.text)
        given = {"parameters": dict(self.parameters), "options": self.options.to_json()}
        write_whole(folder / _REQUEST, json.dumps(given, indent=1))

    @staticmethod
    def load(folder: Path) -> Request:
        """The request of an execution.

        Raises:
            UserError: the run's folder was removed.
        """
        try:
            text = (folder / _DEFINITION).read_text(encoding="utf-8")
            given = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"{folder} no longer holds what was run, so it cannot be resumed. Start a new run; finished steps "
                "that have a cache are taken from it."
            ) from None
        return Request(text, given["parameters"], Options.from_json(given["options"]))


def forbid_resume(folder: Path, reason: str) -> None:
    """Say of a run that it cannot go on, and what to do instead."""
    write_whole(folder / _NO_RESUME, reason)


def why_not_resumed(folder: Path) -> str | None:
    """What `forbid_resume` said of a run; None of one that can go on."""
    file = folder / _NO_RESUME
    return file.read_text(encoding="utf-8") if file.is_file() else None


def trackers_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The trackers that a run is told to, with their settings; none where its folder was removed."""
    try:
        given = Request.load(folder).options.trackers
    except UserError:
        return {}
    return {name: dict(values) for name, values in given.items()}


def masking_of(folder: Path) -> Masking:
    """For the secrets that a run was given: a program may have printed one, and a terminal is looked at by others."""
    try:
        return Request.load(folder).masking()
    except UserError:  # the run's folder was removed, and with it its logs
        return Masking()
