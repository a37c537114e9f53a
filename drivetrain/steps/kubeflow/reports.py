"""Values of the JSON files that a step's program wrote, as output parameters of its task."""

from __future__ import annotations

import json
from typing import Any

from drivetrain.steps.kubeflow.task import Json, Task, TaskError, local_path

_KINDS: dict[str, tuple[type, ...]] = {
    "Float": (int, float),
    "Integer": (int,),
    "String": (str,),
    "Boolean": (bool,),
    "JSON": (str, int, float, bool),
}
"""Type of a value -> those that JSON has for it."""


def reported(task: Task) -> Json:
    """The values of files, as far as other tasks ask for them.

    Raises:
        TaskError: there is no such file or value, or one of another type.
    """
    values: Json = {}
    for key, (output, file, path, kind) in task.document.get("reports", {}).items():
        folder, dotted = local_path(task.made[output]["uri"]), ".".join(map(str, path))
        where = f"step {task.step!r}, {dotted} in {file} of output {output!r}"
        if not (folder / file).is_file():
            there = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
            raise TaskError(f"{where}: there is no such file. The output has {', '.join(there[:9]) or 'nothing'}.")
        try:
            found: Any = json.loads((folder / file).read_bytes())
        except ValueError as error:
            raise TaskError(f"{where}: the file is not JSON: {error}.") from None
        for segment in path:
            try:
                found = (Json() if isinstance(found, str) else found)[segment]  # a text has positions, too
            except (LookupError, TypeError):
                raise TaskError(f"{where}: there is no {segment!r} in {found!r:.200}.") from None
        if type(found) not in _KINDS[kind]:
            allowed = " or ".join(each.__name__ for each in _KINDS[kind])
            raise TaskError(f"{where} is {found!r:.80}, and another step reads it. Allowed: {allowed}.")
        values[key] = as_json(found) if kind == "JSON" else found
    return values


def as_json(value: Any) -> str:
    """JSON text in which nothing looks like a placeholder of the platform."""
    return json.dumps(value).replace("{{", "{\\u007b")
