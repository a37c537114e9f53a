"""The command line that a declaration implies: `--folder PATH` and `--parameter VALUE`, or joined by `=`.

What follows a flag is its value, whatever it begins with. Only the value of a text may be spelled as a flag of the
component, since a platform hands it on as it is. `--text --flag true` still lacks a value: nothing explains `true`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.steps import (
    METRICS_FILE,
    METRICS_OUTPUT,
    ComponentFolder,
    ComponentParameter,
    Declaration,
    Scalar,
    gather,
)

# Definitions that were compiled before give it.
_GONE, _NOW = "--on-change", "an unfinished training of other values stays beside this one."
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def folder_flags(component: Declaration[..., Any]) -> list[tuple[ComponentFolder, str]]:
    """Every folder that the command line takes, and which way its data flow: the declared ones, and the one for the
    numbers that come back."""
    checkpoints = [] if component.checkpoints is None else [component.checkpoints]
    metrics = ComponentFolder(METRICS_OUTPUT, optional=True, help=f"gets {METRICS_FILE}")
    return [
        *((folder, "input") for folder in component.inputs.values()),
        *((folder, "output") for folder in component.outputs.values()),
        *((folder, "kept") for folder in checkpoints),
        *([(metrics, "output")] if component.metrics != () else []),
    ]


def asks_for_help(component: Declaration[..., Any], words: Sequence[str]) -> bool:
    """Return True if `-h` or `--help` is given as a flag."""
    flags = {each.flag for each in _declared(component)}
    return any(
        word in ("-h", "--help") and (index == 0 or words[index - 1] not in flags) for index, word in enumerate(words)
    )


def read(component: Declaration[..., Any], words: Sequence[str]) -> dict[str, Any]:
    """Name -> value of every folder (None where an optional one is not given; checkpoints may be a URI's text) and
    parameter.

    Raises:
        InputError: an unknown flag, one without a value, one that is required and missing; a value of another type.
    """
    declared = {each.flag: each for each in _declared(component)}
    values: dict[str, Any] = {
        each.name: each.default if isinstance(each, ComponentParameter) else None for each in declared.values()
    }
    unknown: list[str] = []
    given: set[str] = set()
    within: list[tuple[str, list[str], str]] = []
    doubtful: str | None = None  # the first text whose value is spelled as a flag
    remaining = gather(words)[::-1]
    while remaining:
        word = remaining.pop()
        flag, joined, text = word.partition("=")
        holder, _, path = flag.partition(".")
        if path and holder in declared and holder.endswith("-options"):
            text = text if joined or not remaining else remaining.pop()
            within.append((declared[holder].name, path.replace("-", "_").split("."), text))
            continue
        if flag == _GONE and flag not in declared and component.checkpoints is not None:
            value = text if joined or not remaining else remaining.pop()
            print(f"{flag} {value} of an earlier definition decides nothing any more: {_NOW}", flush=True)
            continue
        if flag not in declared:
            unknown.append(word)
            continue
        if not joined:
            each = declared[flag]
            is_text = isinstance(each, ComponentParameter) and each.type is str and not each.choices
            if not remaining or (remaining[-1] in declared and not is_text):
                raise _refused(f"argument {doubtful or flag}: expected one argument")
            text = remaining.pop()
            if text in declared:
                doubtful = doubtful or flag
        each = declared[flag]
        values[each.name] = (
            parse(each, text) if isinstance(each, ComponentParameter) else _folder(component, each, text)
        )
        given.add(flag)
    missing = [flag for flag, each in declared.items() if each.required and flag not in given]
    if doubtful and (missing or unknown):  # its value was forgotten, and the flag after it is one
        raise _refused(f"argument {doubtful}: expected one argument")
    if missing:
        raise _refused(f"the following arguments are required: {', '.join(missing)}")
    if unknown:
        raise _refused(f"unrecognized arguments: {' '.join(unknown)}")
    for name, path, text in within:
        values[name] = _with_option(values[name], path, text)
    return values


def _with_option(options: str, path: Sequence[str], text: str) -> str:
    """A JSON object with one more option, as a tuning chooses it: `--estimator-options.max-depth 4`."""
    import json

    from drivetrain.base.json_options import parse_options

    found = place = parse_options(options or "{}", "options")
    for each in path[:-1]:
        inner: Any = place.setdefault(each, {})
        if not isinstance(inner, dict):
            raise _refused(f"{'.'.join(path)}: {each} is {inner!r:.40}, and not an object of options")
        place = cast("dict[str, Any]", inner)
    try:
        place[path[-1]] = json.loads(text)
    except ValueError:
        place[path[-1]] = text
    return json.dumps(found)


def _folder(component: Declaration[..., Any], declared: ComponentFolder, text: str) -> Path | str:
    """A folder; of checkpoints also a URI, which the program itself reaches and a path would spoil (`s3:/bucket`)."""
    return text if declared is component.checkpoints and "://" in text else Path(text)


def parse(declared: ComponentParameter, text: str) -> Scalar:
    """One parameter's value from its text; platforms pass every value as a string.

    Raises:
        InputError: no value of its type, none of its choices, or one beyond its bounds.
    """
    try:
        value: Scalar = _BOOLS[text.strip().lower()] if declared.type is bool else declared.type(text)
        if value != value:  # every comparison with NaN is false, so no check downstream would notice it
            raise ValueError(text)
    except (ValueError, KeyError):
        allowed = {"bool": "true or false", "int": "a whole number"}.get(declared.type.__name__, "a number")
        raise _refused(f"argument {declared.flag}: {text!r} is not {allowed}") from None
    if not declared.allows(value):
        allowed = declared.described()
        why = f"{text!r} is not one of {allowed}" if declared.choices else f"{text!r}; allowed are {allowed}"
        raise _refused(f"argument {declared.flag}: {why}")
    return value


def usage(component: Declaration[..., Any]) -> str:
    """The text that `--help` shows."""
    import argparse

    parser = argparse.ArgumentParser(
        prog=f"python -m drivetrain.steps.call {component.target}", description=component.summary or None
    )
    folders, parameters = parser.add_argument_group("folders"), parser.add_argument_group("parameters")
    for folder, kind in folder_flags(component):
        text = f"({kind}) {folder.help}".strip().replace("%", "%%")
        folders.add_argument(folder.flag, required=folder.required, metavar="PATH", help=text)
    for declared in component.parameters.values():
        bounds = f" ({declared.described()})" if declared.bounds else ""
        default = f" [default: {declared.default!r}]" if declared.default is not None else ""
        parameters.add_argument(
            declared.flag,
            required=declared.required,
            metavar="|".join(map(str, declared.choices)) or declared.type.__name__.upper(),
            help=(declared.help + bounds + default).strip().replace("%", "%%"),
        )
    return parser.format_help()


def _declared(component: Declaration[..., Any]) -> list[ComponentFolder | ComponentParameter]:
    return [*(folder for folder, _ in folder_flags(component)), *component.parameters.values()]


def _refused(message: str) -> InputError:
    return InputError(f"{message}. With --help it lists the folders and parameters.")
