"""`{{$...}}`: what the platform puts in when it starts a task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, quoted

_PLACEHOLDER = re.compile(r"\{\{\$(.*?)\}\}", re.DOTALL)
_OF_THE_RUN = (
    "",
    ".outputs.output_file",
    ".pipeline_job_create_time_utc",
    ".pipeline_job_name",
    ".pipeline_job_resource_name",
    ".pipeline_job_schedule_time_utc",
    ".pipeline_job_uuid",
    ".pipeline_root",
    ".pipeline_task_name",
    ".pipeline_task_uuid",
    ".workspace_path",
)
_NAMED = re.compile(
    r"(?P<kind>\.(?:inputs|outputs)\.(?:parameters|artifacts))\['(?P<name>[^']*)'\]"
    r"(?P<rest>(?:\.(?:path|uri|name|value|output_file)|\.metadata(?:\['[^']*'\])?)?)"
)
_ESCAPED = re.compile(r"\.json_escape\[[0-9]\]")
# How kfp's compiler writes a part of a command that depends on an input.
_STRUCTURES = ('{"Concat"', '{"IfPresent"')
MAX_LEVELS = 20

Known = Mapping[str, Callable[[str], bool]]
"""`.inputs.parameters` and the like -> whether there is such a name; what is missing here cannot be used."""


def input_names(value: Any) -> set[str]:
    """The input parameters that placeholders anywhere in a value name."""
    return {found["name"] for text in _texts(value) for found in _named(text) if found["kind"] == ".inputs.parameters"}


def problems(value: Any, place: str, known: Known) -> Iterator[Problem]:
    """The placeholders of a value that cannot be put in.

    Args:
        value: a text, or an object or list with texts in it.
    """
    for text in _texts(value):
        yield from _of_text(text, place, known)
        if text.startswith(_STRUCTURES):
            yield from _of_structure(text, place, known)


def _of_text(text: str, place: str, known: Known) -> Iterator[Problem]:
    for match in _PLACEHOLDER.finditer(text):
        body = match.group(1)
        if body in _OF_THE_RUN or _ESCAPED.fullmatch(body):
            continue
        named = _NAMED.fullmatch(body)
        if named is None:
            yield Problem(place, f"there is no placeholder {quoted(match.group())}. {did_you_mean(body, _OF_THE_RUN)}")
        elif named["kind"] not in known:
            yield Problem(place, f"{quoted(match.group())} cannot be used here. Use an input's value.")
        elif not known[named["kind"]](named["name"]):
            what = named["kind"].removeprefix(".").replace("puts.", "put ").removesuffix("s")
            yield Problem(place, f"{quoted(match.group())}: there is no {what} {quoted(named['name'])}.")
    if "{{$" in _PLACEHOLDER.sub("", text):
        yield Problem(place, "a placeholder is not closed. Write {{$...}}.")


def _of_structure(text: str, place: str, known: Known) -> Iterator[Problem]:
    try:
        pending: list[tuple[Any, int]] = [(json.loads(text), 0)]
    except (ValueError, RecursionError):
        yield Problem(place, "begins as a Concat or IfPresent does, and is no JSON.")
        return
    while pending:
        value, level = pending.pop()
        if level > MAX_LEVELS:
            yield Problem(place, f"is nested deeper than {MAX_LEVELS} levels.")
            return
        if isinstance(value, list):
            pending += [(each, level + 1) for each in cast("list[Any]", value)]
        elif isinstance(value, dict):
            given = cast(Json, value)
            pending += [(each, level + 1) for each in given.values()]
            present: Any = given.get("IfPresent")
            name = cast(Json, present).get("InputName") if isinstance(present, dict) else None
            if present is not None and not (
                isinstance(name, str)
                and any(is_known(name) for kind, is_known in known.items() if kind.startswith(".inputs"))
            ):
                yield Problem(place, f"IfPresent asks for {quoted(str(name))}, which is no input.")


def _named(text: str) -> Iterator[re.Match[str]]:
    for match in _PLACEHOLDER.finditer(text):
        if named := _NAMED.fullmatch(match.group(1)):
            yield named


def _texts(value: Any) -> Iterator[str]:
    pending: list[Any] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            pending += cast("list[Any]", one)
        elif isinstance(one, dict):
            given = cast(Json, one)
            pending += (*given, *given.values())
