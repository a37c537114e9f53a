"""The name of an evaluation: a hash of what evaluation.json says, the hashes of the report's other files included.

    {"metrics": {...}, ..., "parts": {"bootstrap.json": "<SHA-256>", ...}, "report_hash": "<64 hex digits>"}

`report_hash` is the SHA-256 of the rest as canonical JSON. So an edit by hand is seen, and a decision that names the
hash is one on these very numbers. decision.json has a `decision_hash` of its own in the same way. These hashes show a
mistake and not a forger, who can make them anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError

MODEL_QUALITY_FILE = "model_quality.json"
"""The file of a report that SageMaker shows: by its place a version names its report."""
REPORT_HASH, DECISION_HASH, PARTS = "report_hash", "decision_hash", "parts"
EVALUATION_FORMAT = 2
"""The format of evaluation.json. Format 1 may lack `parts` and `report_hash`, so that an edit would not be seen."""


def report_hash(evaluation: Mapping[str, Any]) -> str:
    """SHA-256, 64 hex digits, of what evaluation.json says but for the hash itself. A report of an earlier version,
    which does not say it, has one, too."""
    return hash_beside(evaluation, REPORT_HASH)


def hash_beside(given: Mapping[str, Any], name: str) -> str:
    """SHA-256, 64 hex digits, of a JSON object but for the text that is to hold it."""
    content = json.loads(json.dumps({key: value for key, value in given.items() if key != name}))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def checked_report(evaluation: Mapping[str, Any], file: Path, *parts: str) -> str:
    """The hash of a report.

    Args:
        file: evaluation.json, for messages and as the place of the parts.
        parts: names of files beside it that are held against their hashes, where it names them.

    Raises:
        InputError: evaluation.json, or one of the parts, was changed after evaluate wrote it.
    """
    found = report_hash(evaluation)
    needed = PARTS in evaluation or evaluation.get("format") != 1
    _check(evaluation, REPORT_HASH, file, "evaluate wrote it", "Evaluate the model again.", needed=needed)
    named: Any = evaluation.get(PARTS)
    for name in parts if isinstance(named, Mapping) else ():
        expected = cast("Mapping[str, Any]", named).get(name)
        if expected is not None and hash_of(file.parent / name) != expected:
            raise InputError(
                f"{file.parent / name} was changed after evaluate wrote it, or belongs to another report: it is not "
                f"what {file.name} names. Evaluate the model again."
            )
    return found


def check_decision(decision: Mapping[str, Any], file: Path) -> None:
    """
    Raises:
        InputError: decision.json was changed after compare wrote it.
    """
    _check(decision, DECISION_HASH, file, "compare wrote it", "Compare the model again.", needed="report" in decision)


def _check(content: Mapping[str, Any], name: str, file: Path, written: str, advice: str, *, needed: bool) -> None:
    """`needed`: the writer also wrote the hash; files of earlier versions have no hash."""
    told, found = content.get(name), hash_beside(content, name)
    if told is None and needed:
        raise InputError(f"{file} was changed after {written}: its {name} is missing. {advice}")
    if told not in (None, found):
        raise InputError(
            f"{file} was changed after {written}: its {name} is {str(told)[:12]}, and its content has {found[:12]}. "
            f"{advice}"
        )


def hash_of(path: Path) -> str:
    """SHA-256 of a file in hex; "" if it is missing."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
