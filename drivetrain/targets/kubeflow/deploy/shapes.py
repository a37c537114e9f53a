"""The shapes of the Pipelines API's answers, as far as they are read: text, times, objects, lists.

A server that answers with JSON of another kind is not the API. What is left out or null counts as empty there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, cast

Shape = Literal["text", "time", "object"] | Mapping[str, Any] | list[Any]
"""A mapping has the fields of an object, with `!` behind the name of one that must be there; a list has one item, the
shape of each."""

REFERENCE: Shape = {"pipeline_id": "text", "pipeline_version_id": "text"}
PIPELINE: Shape = {
    "pipeline_id!": "text",
    "name": "text",
    "display_name": "text",
    "description": "text",
    "created_at": "time",
}
_IR: Shape = {
    "root": {"dag": {"tasks": "object"}},
    "components": "object",
    "deploymentSpec": {"executors": "object"},
}
VERSION: Shape = {
    "pipeline_version_id!": "text",
    "name": "text",
    "display_name": "text",
    "description": "text",
    "created_at": "time",
    "pipeline_spec": {**_IR, "pipeline_spec": _IR},
}
EXPERIMENT: Shape = {"experiment_id!": "text", "display_name": "text", "description": "text"}
_WHEN: Shape = {"start_time": "time", "end_time": "time"}
RECURRING_RUN: Shape = {
    "recurring_run_id!": "text",
    "display_name": "text",
    "description": "text",
    "pipeline_version_reference": REFERENCE,
    "trigger": {"cron_schedule": _WHEN, "periodic_schedule": _WHEN},
    "runtime_config": {"parameters": "object", "pipeline_root": "text"},
}
_TASK: Shape = {
    "display_name": "text",
    "state": "text",
    "create_time": "time",
    "start_time": "time",
    "end_time": "time",
}
RUN: Shape = {
    "run_id!": "text",
    "display_name": "text",
    "description": "text",
    "state": "text",
    "created_at": "time",
    "finished_at": "time",
    "pipeline_version_reference": REFERENCE,
    "pipeline_spec": "object",
    "error": {"message": "text"},
    "state_history": [{"state": "text", "update_time": "time"}],
    "run_details": {"task_details": [_TASK]},
}


def page(key: str, item: Shape) -> Shape:
    """A page of a list."""
    return {key: [item], "next_page_token": "text"}


def problem_of(value: Any, shape: Shape, place: str = "the answer") -> str | None:
    """Name the first part of an answer that has another shape, without a full stop; None if the answer fits."""
    if isinstance(shape, str):
        return None if _is(value, shape) else f"{place} is no {shape}"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place} is no list"
        items = enumerate(cast("list[Any]", value))
        return _first(problem_of(each, shape[0], f"{place}[{number}]") for number, each in items)
    if not isinstance(value, dict):
        return f"{place} is no object"
    return _first(_problem_of_field(cast("dict[str, Any]", value), name, kind, place) for name, kind in shape.items())


def _problem_of_field(value: dict[str, Any], name: str, kind: Shape, place: str) -> str | None:
    key = name.removesuffix("!")
    if value.get(key) is None:
        return f"{place} has no {key}" if key != name else None
    return problem_of(value[key], kind, key if place == "the answer" else f"{place}.{key}")


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)


def _is(value: Any, kind: str) -> bool:
    if kind == "object":
        return isinstance(value, dict)
    if not isinstance(value, str):
        return False
    if kind == "time" and value:
        try:
            datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return False
    return True
