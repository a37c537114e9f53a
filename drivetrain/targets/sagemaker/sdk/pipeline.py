"""A definition as the SDK's Pipeline; imported after `modules.load`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, cast

from drivetrain.assets.assets import Asset
from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.objects import missing, put_once
from drivetrain.targets.sagemaker.sdk.steps import all_steps, spoken, walk

_pipeline: Any = importlib.import_module("sagemaker.mlops.workflow.pipeline")
_experiment: Any = importlib.import_module("sagemaker.mlops.workflow.pipeline_experiment_config")
_parameters: Any = importlib.import_module("sagemaker.core.workflow.parameters")
_shapes: Any = importlib.import_module("sagemaker.core.shapes.shapes")

_TYPES = {"String": str, "Integer": int, "Float": float, "Boolean": bool}
# Whole numbers that a float holds exactly.
_EXACT = 2**53
_EXPERIMENT = {"ExperimentName", "TrialName"}
_MLFLOW = {"MlflowResourceArn", "MlflowExperimentName"}
_WRITTEN = ("Version", "Metadata", "Parameters", "PipelineExperimentConfig", "MlflowConfig", "Steps")

Object = dict[str, Any]


class DefinedPipeline(_pipeline.Pipeline):
    """The SDK's Pipeline, whose definition() also holds what the SDK has no word for."""

    def __init__(
        self,
        name: str,
        definition: Mapping[str, Any],
        session: Any,
        *,
        assets: tuple[Asset, ...] = (),
        before_upload: Callable[[], None] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        definition = deepcopy(dict(definition))  # the steps' JSON may be changed
        experiment, mlflow = definition.get("PipelineExperimentConfig"), definition.get("MlflowConfig")
        kept = set(definition) - set(_WRITTEN) | {"Version", "Metadata"}
        if not _says_only(experiment, _EXPERIMENT):
            kept.add("PipelineExperimentConfig")
            experiment = None
        if not _says_only(mlflow, _MLFLOW):
            kept.add("MlflowConfig")
            mlflow = None
        _pipeline.Pipeline.__init__(
            self,
            name=name,
            parameters=[_parameter(raw) for raw in definition.get("Parameters") or ()],
            pipeline_experiment_config=experiment
            and _experiment.PipelineExperimentConfig(
                *(spoken(experiment.get(field), frozenset()) for field in ("ExperimentName", "TrialName"))
            ),
            mlflow_config=mlflow
            and _shapes.MlflowConfig(
                mlflow_resource_arn=spoken(mlflow.get("MlflowResourceArn"), frozenset()),
                mlflow_experiment_name=spoken(mlflow.get("MlflowExperimentName"), frozenset()),
            ),
            steps=all_steps(definition["Steps"]),
            sagemaker_session=session,
        )
        self.assets = assets
        self._before_upload = before_upload
        self._defaults = dict(defaults or {})
        self._kept = {field: definition[field] for field in definition if field in kept}

    def definition(self) -> str:
        """The definition as JSON text: the SDK's own, completed."""
        written: Object = json.loads(_pipeline.Pipeline.definition(self))
        for field in ("PipelineExperimentConfig", "MlflowConfig"):
            if written[field] is None:
                del written[field]
        written = {**written, **self._kept}
        ours = {step.name: step for step in walk(self.steps) if hasattr(step, "restore")}
        for step in _walk_json(written["Steps"]):
            if (known := ours.get(step["Name"])) is not None:
                known.restore(step)
        return json.dumps(written)

    def upload(self) -> int:
        """Put the code and data that the definition names into the bucket; gives how many objects were not there.

        Raises:
            UserError: AWS refuses, or the settings name no bucket of an account.
        """
        if self._before_upload is not None:
            self._before_upload()
        account = _SessionAccount(self.sagemaker_session)
        return sum(put_once(account, asset.uri, asset.content, asset.sha256) for asset in missing(account, self.assets))

    def create(
        self,
        role_arn: str | None = None,
        description: str | None = None,
        tags: Any = None,
        parallelism_config: Any = None,
        **options: Any,
    ) -> Any:
        """Upload, then as the SDK's; what is not given is what the pipeline's own code says."""
        self.upload()
        said = self._said(role_arn=role_arn, description=description, tags=tags, parallelism_config=parallelism_config)
        return _pipeline.Pipeline.create(self, **said, **options)

    def update(
        self, role_arn: str | None = None, description: str | None = None, parallelism_config: Any = None
    ) -> Any:
        """Upload, then as the SDK's; what is not given is what the pipeline's own code says."""
        self.upload()
        said = self._said(role_arn=role_arn, description=description, parallelism_config=parallelism_config)
        return _pipeline.Pipeline.update(self, **said)

    def upsert(
        self,
        role_arn: str | None = None,
        description: str | None = None,
        tags: Any = None,
        parallelism_config: Any = None,
    ) -> Any:
        """As the SDK's: `create`, and `update` where there is one of that name."""
        said = self._said(role_arn=role_arn, description=description, tags=tags, parallelism_config=parallelism_config)
        return _pipeline.Pipeline.upsert(self, **said)

    def _said(self, **given: Any) -> Object:
        return {name: self._defaults.get(name) if value is None else value for name, value in given.items()}


class _SessionAccount(Account):
    """An account that is reached with the credentials of the SDK's session."""

    def __init__(self, session: Any) -> None:
        super().__init__(session.boto_region_name)
        self._boto = session.boto_session

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._boto.client(service, region_name=self.region)
        return self._clients[service]


class _DefinedParameter(_parameters.Parameter):
    """A parameter that the SDK's classes cannot fully express; its default can be changed."""

    def __init__(self, raw: Object) -> None:
        _parameters.Parameter.__init__(self, name=raw["Name"])
        self._raw = raw
        self.default_value = raw.get("DefaultValue")

    def to_request(self) -> Object:
        request = {**self._raw, "DefaultValue": self.default_value}
        if self.default_value is None and "DefaultValue" not in self._raw:
            del request["DefaultValue"]
        return request


def _parameter(raw: Object) -> Any:
    name, kind, default = raw["Name"], raw["Type"], raw.get("DefaultValue")
    spare = set(raw) - {"Name", "Type", "DefaultValue", "EnumValues"}
    choices = raw.get("EnumValues")
    if kind == "Float" and type(default) is int and abs(default) <= _EXACT:
        default = float(default)  # JSON has one kind of number, the SDK two
    if spare or not (default is None or type(default) is _TYPES.get(kind)) or (choices and kind != "String"):
        return _DefinedParameter(raw)
    match kind:
        case "String":
            return _parameters.ParameterString(name, default, choices)
        case "Integer":
            return _parameters.ParameterInteger(name, default)
        case "Float":
            return _parameters.ParameterFloat(name, default)
        case "Boolean":
            return _parameters.ParameterBoolean(name=name, default_value=default)
        case _:
            return _DefinedParameter(raw)


def _says_only(given: Json, fields: set[str]) -> bool:
    return given is None or (isinstance(given, dict) and set(given) == fields)


def _walk_json(steps: Iterable[Object]) -> Iterator[Object]:
    """The same steps as they are written; not those inside a step that is carried as it is."""
    for step in steps:
        yield step
        if step["Type"] in ("Condition", "ForEach"):
            for branch in ("IfSteps", "ElseSteps", "ForEachBody"):
                yield from _walk_json(cast("list[Object]", step["Arguments"].get(branch) or ()))
