"""Row rules as authors give them, `rules="rules.yaml"` or a dict, and as they travel: a checked JSON text."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.authoring.foreign_rules import translated
from drivetrain.authoring.plain_yaml import load_yaml
from drivetrain.base.call_site import is_users_file
from drivetrain.base.errors import InputError, Notice, SpecError, and_more, shown
from drivetrain.decision.data_rules import night_rules

_SUFFIXES = (".yaml", ".yml", ".json")


def rules_text(given: Any, where: str) -> Any:
    """The JSON text of row rules, for a step's parameter; what is only known when a pipeline runs stays as it is.

    Args:
        given: a dict, a JSON text, the path of a YAML or JSON file (from the folder of the pipeline's code, or from the
            current one), a schema of pandera or dataframely, or a suite of Great Expectations.
        where: begins a message.

    Raises:
        SpecError: there is no such file, or what it holds are no row rules.
    """
    content, file = given, ""
    if isinstance(given, str | os.PathLike):
        text = content = str(os.fspath(cast("str | os.PathLike[str]", given)))
        if not text.lstrip().startswith("{"):
            content, file = read_rules(_found(text, where)), text
    if not isinstance(content, str) and (found := translated(content)):
        content, others = found
        if others:
            said = f"{where}: rules have no {and_more(others, 10)}, which the given schema has: check these elsewhere."
            warnings.warn(said, Notice, stacklevel=2)
    if not isinstance(content, str | Mapping):
        return content
    # Dates are texts in JSON.
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    try:
        night_rules(text)
    except InputError as error:
        said = str(error).replace("rules: ", f"{file}: ", 1) if file else error
        raise SpecError(f"{where}: {said}") from None
    return text


def read_rules(file: Path) -> dict[str, Any]:
    """The content of a file of row rules.

    Raises:
        InputError: it cannot be read, or is neither YAML nor JSON.
    """
    try:
        content = load_yaml(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from None
    # A date of YAML's is a text to JSON.
    plain: Any = json.loads(json.dumps(content, default=str))
    if not isinstance(plain, dict):
        raise InputError(f"{file} holds {shown(content, 40)}, and no rules. docs/data.md has an example.")
    return cast("dict[str, Any]", plain)


def _found(text: str, where: str) -> Path:
    if not text.endswith(_SUFFIXES):
        raise SpecError(f"{where}: rules is {shown(text, 60)}. Give a dict, or a file: rules='rules.yaml'.")
    places = [*_folders(), Path.cwd()]
    found = next((place / text for place in places if (place / text).is_file()), None)
    if found is None:
        raise SpecError(f"{where}: rules is {text!r}: there is no such file in {places[0]}.")
    return found


def _folders() -> Iterator[Path]:
    """The folder of the user's code that is running."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users_file(frame.f_code.co_filename):
            yield Path(frame.f_code.co_filename).parent
            return
        frame = frame.f_back
