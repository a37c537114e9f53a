"""The values of expressions while an execution runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json, object_in, text_in
from drivetrain.base.masking import Masking, contains_mask
from drivetrain.run_store.home import Home, write_whole
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.statuses import Facts, moment
from drivetrain.steps import FRESH_PARAMETER, fresh_token
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import (
    EXECUTION_FIELDS,
    JOB_FIELDS,
    Get,
    Scope,
    UnresolvedReference,
    is_expression,
    resolve,
)
from drivetrain.targets.sagemaker.run.jobs.job_data import entries

# In the response of a stubbed step: the JSON of its property files.
STUBBED_FILES = "PropertyFiles"
_MOMENT = "moment.json"


class ExecutionScope(Scope):
    """Parameters, the execution's own values, and what finished steps gave (step name -> describe response)."""

    def __init__(self, definition: Definition, facts: Facts, parameters: Mapping[str, Any], store: ObjectStore) -> None:
        self._definition = definition
        self._facts = facts
        self.parameters = parameters
        self._store = store
        self.responses: dict[str, Mapping[str, Any]] = {}
        self._iterated: dict[str, StepNode] = {}
        self._items: dict[str, Json] = {}
        self._item: tuple[Json, ...] = ()  # that of the iteration, inside one
        self._step, self._now = "", time.time

    @property
    def fresh(self) -> str:
        """The token of a run with --fresh; empty in others."""
        return fresh_token(self.parameters, FRESH_PARAMETER)

    @cached_property
    def masking(self) -> Masking:
        """For the secrets in the parameters and in the steps' fields, as far as they are known before the run."""
        known = [resolve_known(step.own_fields, self) for step in self._definition.walk()]
        return Masking.of(self.parameters, *known)

    def iterate(self, steps: Sequence[StepNode], item: Json) -> None:
        """Add the steps of an iteration of a ForEach, and its item."""
        for step in steps:
            self._iterated[step.name] = step
            self._items[step.name] = item
        shown = resolve_known([step.raw for step in steps], self.inside(item))
        self.masking = self.masking.including(shown, parsed_item(item))

    def inside(self, item: Json) -> ExecutionScope:
        """The scope of an iteration's steps: everything that other steps see, and the item."""
        inner = copy(self)
        inner._item = (item,)
        return inner

    def arguments(self, node: Any, step: str = "", now: Callable[[], float] = time.time) -> Any:
        """A step's fields with every expression replaced; `step` names it, which says in which iteration it stands,
        and `now` gives its CurrentDateTime.

        Raises:
            UserError: a value that does not exist (yet), or one that was not kept because it looks like a secret.
        """
        scope = self.inside(self._items[step]) if step in self._items else copy(self)
        scope._step, scope._now = step, now
        resolved = resolve(node, scope)
        if contains_mask(resolved) and not contains_mask(node):
            raise UserError(
                "a reference leads to a value that is kept nowhere, since it looks like a secret. Give the "
                "value to this step by itself."
            )
        return resolved

    def finished(self, step: str, response: Mapping[str, Any]) -> None:
        """From now on expressions see what the step gave: the same as after a resume, so without secrets."""
        self.responses[step] = self.masking(response)

    def parameter(self, name: str) -> Any:
        if name not in self.parameters:
            raise UnresolvedReference(f"there is no parameter {name!r}.")
        return self.parameters[name]

    def execution(self, field: str) -> Any:
        if field in JOB_FIELDS and self._step:
            return self._facts.job_name(self._step)
        facts = self._facts
        values: dict[str, Any] = {
            "PipelineName": facts.pipeline,
            "PipelineArn": facts.pipeline_arn,
            "PipelineExecutionId": facts.id,
            "PipelineExecutionArn": facts.execution_arn,
            "StartDateTime": moment(facts.started),
        }
        if field == "CurrentDateTime":
            return moment(self._now())
        if field not in values:
            raise UnresolvedReference(f"an execution has no {field!r}. {did_you_mean(field, EXECUTION_FIELDS)}")
        return values[field]

    def step(self, name: str) -> Any:
        if name not in self.responses:
            raise UnresolvedReference(f"step {name!r} gave nothing: it has not run.")
        return self.responses[name]

    def property_file(self, step: str, name: str) -> Any:
        response = self.step(step)
        stubbed: Any = response.get(STUBBED_FILES, {})
        if name in stubbed:
            return stubbed[name]
        node = self._iterated.get(step) or self._definition.step(step)
        file = node.property_files.get(name)
        if file is None:
            raise UnresolvedReference(f"step {step!r} has no property file {name!r}.")
        uri = output_uri(response, file.output_name)
        if uri is None:
            raise UnresolvedReference(f"step {step!r} has no output {file.output_name!r} for property file {name!r}.")
        return self._json(f"{uri.rstrip('/')}/{file.file_path}", f"property file {name!r} of step {step!r}")

    def s3_json(self, uri: str) -> Any:
        return self._json(uri, "Std:JsonGet")

    def root(self, name: str) -> Any:
        if name == "PipelineExperimentConfig":
            return resolve(self._definition.raw.get(name) or {}, self)
        raise UnresolvedReference(f"{name} has no value outside of a ForEach step.")

    def below_root(self, get: Get) -> Any:
        if get.root != FOR_EACH or not self._item:
            return super().below_root(get)
        from drivetrain.targets.sagemaker.document.for_each import current_item

        return current_item(self._item[0], get)

    def _json(self, uri: str, what: str) -> Json:
        path = self._store.path(uri)
        if not path.is_file():
            raise UnresolvedReference(f"{what}: there is no {uri} ({path}). Did the step write it?")
        return json_text.parse(path.read_bytes(), f"{what} ({uri})")


def parsed_item(item: Json) -> Json:
    """The item of an iteration; the object where it is the JSON text of one."""
    if isinstance(item, str):
        try:
            return json_text.parse(item, "item")
        except UserError:
            return item  # plain text
    return item


def shown_item(item: Json, masking: Masking) -> str:
    """The item of an iteration as text, without secrets."""
    from drivetrain.targets.sagemaker.document.for_each import item_text

    parsed = parsed_item(item)
    whole = isinstance(parsed, dict | list)
    return item_text(masking(parsed) if whole else masking(item_text(item)))


def output_uri(arguments: Mapping[str, Any], name: str) -> str | None:
    """The URI of a processing job's output of that name; None if it has none."""
    config = object_in(arguments, "ProcessingOutputConfig")
    for output in entries(config, "Outputs"):
        if output.get("OutputName") == name:
            return text_in(object_in(output, "S3Output"), "S3Uri")
    return None


def own_arguments(step: StepNode) -> Mapping[str, Any]:
    """A step's arguments without other steps: a Condition's branches, and a ForEach's body with its selector."""
    arguments: Mapping[str, Any] = step.own_fields.get("Arguments") or {}
    if step.type != FOR_EACH:
        return arguments
    from drivetrain.targets.sagemaker.document.for_each import OF_THE_BODY

    return {key: value for key, value in arguments.items() if key not in OF_THE_BODY}


def resolve_known(node: Any, scope: Scope) -> Any:
    """Resolve what is known before the run; other expressions stay unchanged."""
    if isinstance(node, dict):
        given = cast("dict[str, Any]", node)
        if is_expression(given):
            try:
                return resolve(given, scope)
            except UnresolvedReference:
                return given
        return {key: resolve_known(value, scope) for key, value in given.items()}
    if isinstance(node, list):
        return [resolve_known(item, scope) for item in cast("list[Any]", node)]
    return node


def moment_of_step(home: Home, execution: str, step: str) -> float:
    """Execution.CurrentDateTime for a step, in seconds since the epoch: the moment at which it first began, which is
    kept in the run's folder.

    Were it the time of day at each attempt, a step that was killed would go on as another one: its outputs would go
    elsewhere, a question would be asked again, and finished trainings of a tuning would be thrown away.
    """
    path = home.run(execution) / step / _MOMENT
    try:
        return float(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        pass  # it is asked for the first time
    now = time.time()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(now))
    return now
