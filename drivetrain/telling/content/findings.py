"""Findings of a run's steps: data sets, their checks, evaluations, decisions and cards among what they wrote, and the
numbers that they returned, from their property files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.run_store.model import Artifact
from drivetrain.telling.content import Measured

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import StepRun
    from drivetrain.targets.sagemaker.document.document import Definition, StepNode


# A step returns a few numbers; a larger file holds other data.
MAX_NUMBERS_BYTES = 1024 * 1024
MAX_NUMBERS = 1_000
_PER_CLASS = re.compile(r"^(.+?)_class_(.+)$")


def measured_by(home: Home, rows: Iterable[StepRun], definition: Definition | None) -> Iterator[Measured]:
    """The numbers in the property files of the steps that are done."""
    if definition is None:
        return
    for row in rows:
        node = definition.by_name.get(row.name) if row.parent is None else _of_a_body(definition, row)
        if node is None or row.status not in ("Succeeded", "Cached"):
            continue
        numbers: dict[str, float] = {}
        for file in node.property_files.values():
            uri = _output_uri(row, file.output_name)
            if uri is not None:
                numbers |= _numbers(home, uri, file.file_path)
        if numbers:
            yield Measured(step=row.name, numbers=numbers)


def _of_a_body(definition: Definition, row: StepRun) -> StepNode | None:
    """The step of a ForEach's body that a step of one of its iterations was made of."""
    loop = definition.by_name.get(row.parent or "")
    name = row.name.rpartition("-")[0]
    return next((step for step in loop.body if step.name == name), None) if loop is not None else None


def _output_uri(row: StepRun, output: str) -> str | None:
    """The URI of a processing job's output, by its description or, before there is one, its arguments."""
    for source in (row.response, row.arguments):
        outputs = object_in(source, "ProcessingOutputConfig").get("Outputs")
        for item in cast("list[Any]", outputs) if isinstance(outputs, list) else []:
            if isinstance(item, dict):
                entry = cast("dict[str, Any]", item)
                uri = object_in(entry, "S3Output").get("S3Uri")
                if entry.get("OutputName") == output and isinstance(uri, str):
                    return uri
    return None


def _numbers(home: Home, uri: str, file: str) -> dict[str, float]:
    """The finite numbers of a JSON file in the store, nested ones under `a.b`; none when it is no such file."""
    from drivetrain.run_store.objects import ObjectStore

    try:
        path = ObjectStore(home.objects).path(f"{uri.rstrip('/')}/{file}")
        if path.stat().st_size > MAX_NUMBERS_BYTES:
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, UserError):
        return {}  # a property file of another shape, or thrown away since: the page does without
    return dict(list(_flat(content, ""))[:MAX_NUMBERS])


def _flat(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _flat(item, f"{path}.{key}" if path else key)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and path:
        yield path, value


def per_class(measured: Measured) -> dict[str, list[tuple[str, float]]]:
    """Measure -> (class, number), classes in their natural order."""
    found: dict[str, list[tuple[str, float]]] = {}
    for name, value in measured.numbers.items():
        if match := _PER_CLASS.match(name):
            found.setdefault(match[1], []).append((match[2], value))
    return {name: sorted(bars, key=lambda bar: natural(bar[0])) for name, bars in found.items()}


def overall(measured: Measured) -> dict[str, float]:
    """The numbers that are not one class's."""
    return {name: value for name, value in measured.numbers.items() if not _PER_CLASS.match(name)}


def words(name: str) -> str:
    """`samples_per_second` -> `samples per second`."""
    return name.replace("_", " ")


def natural(name: str) -> tuple[float, str]:
    """A key to sort by: numbers in their order, then names in theirs."""
    return (float(name), "") if re.fullmatch(r"-?\d+(\.\d+)?", name) else (float("inf"), name)


_CARD = "card.json"
# Facts of a run, the file that tells of them, and what reads it: imported for runs that have such a file.
_READERS = (
    ("datasets", "manifest.json", "datasets", "read_dataset"),
    ("data_checks", "data_check.json", "data_check", "read_data_check"),
    ("data_checks", "served_check.json", "data_check", "read_served_check"),
    ("evaluations", "evaluation.json", "evaluation", "read_evaluation"),
    ("decisions", "decision.json", "decision", "read_decision"),
    ("cards", _CARD, "card", "read_card"),
)


def findings(home: Home, artifacts: Iterable[Artifact], left: Iterable[tuple[str, Path]] = ()) -> dict[str, Any]:
    """The data sets, their checks, evaluations, decisions and cards among what the steps wrote, by their names in
    RunFacts, in the order of the steps.

    Args:
        left: failed steps and folders of theirs, in which checks of data are looked for: a bad night fails its step.
    """
    found: dict[str, Any] = {}
    for name, file, module, function in _READERS:
        facts: list[Any] = []
        of_failed = [each for each in left if _is_there(each[1] / file)] if name == "data_checks" else []
        for step, folder in chain(folders_with(file, home, artifacts), of_failed):
            facts.append(getattr(import_module(f"{__package__}.{module}"), function)(step, folder))
        if facts:
            found[name] = (*found.get(name, ()), *(one for one in facts if one is not None))
    return found


def folders_with(file: str, home: Home, artifacts: Iterable[Artifact]) -> Iterator[tuple[str, Path]]:
    """The steps and folders of outputs that hold a file of this name, perhaps one that cannot be read.

    A card in the archive that a training's output becomes lies in a folder for as long as the caller looks at it.
    """
    from drivetrain.run_store.objects import ObjectStore

    store = ObjectStore(home.objects)
    for artifact in artifacts:
        if artifact.flow != "output":
            continue
        try:
            folder = store.path(artifact.uri)
        except UserError:
            continue  # no URI of an object store
        if _is_there(folder / file):
            yield artifact.step, folder
        elif file == _CARD and folder.name.endswith(".tar.gz") and (members := _card_in(folder)):
            with TemporaryDirectory(prefix="drivetrain-card-") as unpacked:
                for name, content in members.items():
                    Path(unpacked, name).write_bytes(content)
                yield artifact.step, Path(unpacked)


def _card_in(archive: Path) -> dict[str, bytes]:
    """The card of an archive, and the files beside it; empty without one."""
    from drivetrain.telling.content.untrusted_json import read_members  # (only where there is an archive)

    try:
        # (Of an archive without a card, which most are, no more than the first names are read.)
        own = re.compile(r"card(-\d+)?\.\w+")
        found = read_members(archive, lambda name: own.fullmatch(name) is not None, last=_CARD, sorted_=True)
    except (OSError, ValueError):
        return {}  # deleted since, or no archive
    return found if _CARD in found else {}


def _is_there(path: Path) -> bool:
    """Return True if there is a file, also if this user may not see it: reading it then says so."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
