"""Starting what is deployed: once, however often it is asked for."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import parse
from drivetrain.spec.binding import typed
from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.values import ValueType
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.fresh import deployed_start
from drivetrain.targets.kubeflow.compile.words import PARAMETER_TYPES, check_given
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.applying import ensure_experiment
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, Version, mark_of, marked, version
from drivetrain.targets.kubeflow.deploy.desired import MAX_RUN_NAME, pipeline_root
from drivetrain.targets.kubeflow.deploy.executions.executions import required
from drivetrain.targets.kubeflow.deploy.rest import Api
from drivetrain.targets.kubeflow.ir.components import is_required

Json = dict[str, Any]
DIGITS = 12


def start(
    api: Api,
    name: str,
    root: str,
    experiment: str,
    request: StartRequest,
    service_account: str | None = None,
    project: str | None = None,
) -> str:
    """Start an execution; gives its id. Another project's pipeline is refused, unless `project` is None.

    A request with a token is started once, however often it is repeated.

    Raises:
        UserError: a parameter that it does not have, a name that is too long, other settings deployed it, or the API
            refuses.
    """
    if len(request.name or "") > MAX_RUN_NAME:
        raise UserError(f"--name has {len(request.name or ''):,} characters; at most {MAX_RUN_NAME} there.")
    there = required(api, name)
    there.refuse_other(root, project, "Start it with those, or give this one another name.")
    chosen = _chosen(api, there, request.version)
    token = request.token or uuid.uuid4().hex
    called = request.name or f"{name}-{token[:DIGITS]}"
    parameters = request.parameters
    if request.fresh:
        parameters = deployed_start(parameters, _declared(chosen.spec), name, token)
    body: Json = {
        "display_name": called,
        "description": marked("", pipeline=name, token=token),
        "experiment_id": ensure_experiment(api, experiment)[0],
        "pipeline_version_reference": {"pipeline_id": there.id, "pipeline_version_id": chosen.id},
        "runtime_config": {"parameters": bound(chosen.spec, parameters), "pipeline_root": pipeline_root(root)},
    }
    if service_account:
        body["service_account"] = service_account

    def begun() -> Json | None:
        return next(iter(_with_token(api, body, token)), None)

    run = begun() if request.token else None
    run = run or service.created_once(lambda: service.create_run(api, body), begun)
    return _first(api, body, token) if request.token else str(run["run_id"])


def _with_token(api: Api, body: Json, token: str) -> list[Json]:
    """The runs of that token, the oldest first."""
    query = {"sort_by": "created_at asc", "filter": service.equals("display_name", body["display_name"])}
    found = service.runs(api, body["experiment_id"], **query)
    return [run for run in found if (mark_of(run) or {}).get("token") == token]


def _first(api: Api, body: Json, token: str) -> str:
    """Keep one run of several that were asked for at the same moment; the others go."""
    runs = _with_token(api, body, token)
    runs.sort(key=lambda run: (str(run.get("created_at")), str(run["run_id"])))
    for run in runs[1:]:
        service.delete_run(api, str(run["run_id"]))  # with its pods
    return str(runs[0]["run_id"])


def _chosen(api: Api, there: Deployed, number: int | None) -> Version:
    assert there.newest is not None
    if number is None:
        return there.newest
    found = [each for each in map(version, service.versions(api, there.id, there.name)) if each.number == number]
    if not found:
        raise UserError(f"Pipeline {there.name!r} has no version {number}. The latest is {there.number}.")
    return found[0]


_TYPES: Mapping[str, ValueType] = {ir: type for type, ir in PARAMETER_TYPES.items()}


def _declared(spec: Mapping[str, Any]) -> Json:
    ir: Json = dict(spec.get("pipeline_spec", spec))
    return ir.get("root", {}).get("inputDefinitions", {}).get("parameters", {})


def bound(spec: Mapping[str, Any], given: Mapping[str, str]) -> Json:
    """Values of parameters, typed as what is deployed wants them.

    Raises:
        UserError: one that it does not have, of another type, one that the platform cannot hold, or one that is
            missing.
    """
    declared = _declared(spec)
    values: Json = {}
    for name, text in given.items():
        if name not in declared:
            raise UserError(f"There is no parameter {name!r}. {did_you_mean(name, declared)}")
        type = _TYPES.get(str(declared[name].get("parameterType")), "String")
        is_json = declared[name].get("parameterType") in ("LIST", "STRUCT")
        values[name] = parse(text, f"--param {name}") if is_json else typed(Parameter(name=name, type=type), text)
    check_given(values, given)
    missing = [name for name, one in declared.items() if name not in values and is_required(one)]
    if missing:
        raise UserError(f"Parameter {missing[0]!r} has no default. Give it: --param {missing[0]}=...")
    return values
