"""Kubeflow Pipelines as the commands see it; see ../../deployer.py."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import Applied, Tell, apply
from drivetrain.deploying.plan import Plan, Terms
from drivetrain.deploying.project import project_of
from drivetrain.deploying.runs import Listed, RemoteRun, Report, Row
from drivetrain.registry.registry import open_registry
from drivetrain.spec.deployment import Deployment
from drivetrain.targets.deployer import DeployedRuns, Deployer, Handle, Starter, StartRequest, runs_command
from drivetrain.targets.kubeflow.deploy import deployed as reading
from drivetrain.targets.kubeflow.deploy import desired as wishing
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.applying import Namespace
from drivetrain.targets.kubeflow.deploy.desired import Desired
from drivetrain.targets.kubeflow.deploy.destroying import Remains, destroy, remains
from drivetrain.targets.kubeflow.deploy.executions import executions as running
from drivetrain.targets.kubeflow.deploy.executions import starting
from drivetrain.targets.kubeflow.deploy.executions.following import FollowedExecution, Output
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.planning import make_plan
from drivetrain.targets.kubeflow.deploy.rest import Api, Patience
from drivetrain.targets.kubeflow.deploy.server import Server
from drivetrain.targets.kubeflow.deploy.server import read as read_server
from drivetrain.targets.kubeflow.deploy.starter import Starter as OfRegistry
from drivetrain.targets.kubeflow.settings import NAME, TITLE, settings_of

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.kubeflow.compile.compile import Compiled

START_OPTIONS = ("version",)
Json = dict[str, Any]
HINTS: Mapping[str, str] = {
    "edited": "Others uploaded a version since the last apply; to see what it changes: drivetrain plan NAME",
    "being applied": "Apply is at work, or was cut short; applying again ends it: drivetrain apply NAME",
    "not ours": "Not made by drivetrain; to take one over: drivetrain apply NAME --discard all",
}


def report(run: RemoteRun) -> Report:
    """An execution with its steps."""
    steps: list[PodStep] = [step for step in run.steps if isinstance(step, PodStep)]
    more = {"note": run.note} if run.note else {}
    return Report(execution=run, rows=tuple(_row(step, run.fresh) for step in steps), total=run.note, more=more)


def _row(step: PodStep, fresh: bool) -> Row:
    counts = ((step.iterations, "iterations"), (step.tried, "attempts"))
    waits = f"pending: {step.pending}" if step.pending and step.status == "Executing" else ""
    counted = (f"{n} {what}" for n, what in counts if n > 1)
    remarks = (step.branch, step.starts, "--fresh" if fresh and step.programs else "", *counted, waits)
    said = {
        "step": step.name,
        "type": step.type,
        "status": step.status,
        "started": step.started,
        "seconds": step.seconds,
        "runs": step.iterations,
        "attempts": step.tried,
        "reason": step.reason,
        "pods": list(step.pods),
        "starts_from": step.starts or None,
    }
    return Row(step, said, remark=", ".join(filter(None, remarks)), has_log=bool(step.programs))


def connect(
    deployment: Deployment | None, *, region: str | None, operand: str = "", options: Sequence[str] = ()
) -> Deployer:
    """The namespace that settings name."""
    if region is not None:
        raise UserError(
            f"--region is of SageMaker. {TITLE} is found by its settings: -c FILE, or --set "
            "deployment.targets.kubeflow.endpoint=..."
        )
    deployment = deployment or Deployment()
    wishing.check_place(settings_of(deployment), storage=False)
    return Kubeflow(deployment, operand, options)


class Kubeflow(DeployedRuns):
    """A namespace of a cluster."""

    def __init__(
        self, deployment: Deployment, operand: str = "", options: Sequence[str] = (), patience: Patience | None = None
    ) -> None:
        self._deployment = deployment
        self.settings = settings = settings_of(deployment)
        self.place = f"namespace {settings.namespace}"
        self.where = settings.where
        self._operand, self._options = operand, options
        self.states: Mapping[str, str] = HINTS
        self.api = Api(settings.endpoint, settings.namespace, settings.token_file, patience)

    def again(self, pipeline: str, *words: str) -> str:
        pairs = list(zip(self._options[::2], self._options[1::2], strict=True))
        kept = [
            (option, text)
            for option, text in pairs
            if option != "--set" or text.startswith(("deployment.", "deployment="))
        ]
        # By its deployed name where the settings are those of the file alone, which `start` refuses.
        named = (self._operand if kept == pairs else "") or pipeline
        return shlex.join((named, *words, *(word for pair in kept for word in pair)))

    def about_runs(self, command: str, pipeline: str, *words: str) -> str:
        return runs_command(command, words, NAME, self._operand or pipeline, self._options)

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.settings.s3_endpoint)

    @cached_property
    def _output(self) -> Output:
        return Output(self.api, self.settings.s3_endpoint)

    @cached_property
    def server(self) -> Server:
        """The installation that answers, asked once."""
        return read_server(self.api)

    def experiment(self, pipeline: str) -> str:
        """The experiment to which executions belong."""
        return self.settings.experiment or pipeline

    def wanted(self, compiled: Compiled) -> Desired:
        return wishing.desired(compiled)

    def wanted_definition(self, name: str, raw: Any) -> Desired:
        raise UserError(f"A definition (-d FILE.json) is of SageMaker. {TITLE} takes a pipeline: drivetrain plan NAME")

    def plan(self, wanted: Desired, terms: Terms | None = None) -> Plan:
        self.server.refuse_old(self.settings.endpoint)
        there = reading.read(self.api, wanted.name)
        plan = make_plan(self.objects, wanted, there, terms or Terms())
        notes = tuple(self.server.notes(plan.notes, self.settings.namespace))
        return plan.model_copy(update={"notes": notes})

    def apply(self, wanted: Desired, plan: Plan, tell: Tell) -> Applied:
        self.server.refuse_old(self.settings.endpoint)
        return apply(Namespace(self.api, self.objects, wanted, tell), plan)

    def remains(self, name: str, *, foreign: bool = False) -> Remains:
        wishing.check_place(self.settings)
        root = f"{self.settings.root}/{name}"
        owner = wishing.owner(self.settings, name, project_of(self._deployment))
        experiment = self.experiment(name)
        return remains(self.api, self.objects, owner, root, experiment, foreign=foreign, about_runs=self.about_runs)

    def destroy(self, what: Remains, tell: Tell) -> Remains:
        cascades = self.server.cascades
        return destroy(self.api, self.objects, what, tell, cascades=cascades, about_runs=self.about_runs)

    def kept(self, name: str) -> str:
        return f"{self.settings.root}/{name}/"

    def start(self, pipeline: str, request: StartRequest) -> Handle:
        request.refuse(START_OPTIONS, TITLE)
        root, experiment = f"{self.settings.root}/{pipeline}", self.experiment(pipeline)
        wishing.check_place(self.settings)
        self.server.refuse_old(self.settings.endpoint)
        # Where there is no repository, as in the cluster, any project's of these settings is started.
        project = project_of(self._deployment) or None
        id = starting.start(self.api, pipeline, root, experiment, request, self.settings.service_account, project)
        return self._named(id, pipeline)

    def followed(self, handle: Handle) -> FollowedExecution:
        return FollowedExecution(self.api, self._output, handle.pipeline, handle.id)

    def report_of(self, run: RemoteRun) -> Report:
        return report(run)

    def stop(self, handle: Handle) -> None:
        running.stop(self.api, handle.id)

    def executions(self, pipeline: str, limit: int | None) -> Sequence[RemoteRun]:
        return running.executions(self.api, pipeline, self.experiment(pipeline), limit)

    def pipelines(self, limit: int) -> Iterable[Listed]:
        return deployed_pipelines(self.api, limit, self.settings.experiment)

    def starter(self, pipeline: Pipeline, tell: Tell) -> Starter:
        wishing.check_place(self.settings)
        if self.settings.registry is None:
            raise UserError(
                "No registry to look at. Set deployment.targets.kubeflow.registry, such as "
                "kubeflow:http://model-registry-service.kubeflow:8080."
            )
        return OfRegistry(
            pipeline,
            self.api,
            self.objects,
            open_registry(self.settings.registry),
            lambda request: self.start(pipeline.name, request).id,
            tell,
            root=f"{self.settings.root}/{pipeline.name}",
            experiment=self.experiment(pipeline.name),
        )

    def handle(self, run: RemoteRun) -> Handle:
        return self._named(run.id, run.pipeline)

    def _named(self, id: str, pipeline: str) -> Handle:
        # As the web pages have it.
        return Handle(id, f"{self.settings.endpoint}/#/runs/details/{id}", "url", pipeline)


def deployed_pipelines(api: Api, limit: int, experiment: str | None = None) -> Iterator[Listed]:
    """The pipelines of the namespace, by name: three calls for each.

    Args:
        experiment: to which executions belong; one of each pipeline's name unless given.
    """
    for said in islice(service.pipelines(api), limit):
        id, name = str(said["pipeline_id"]), str(said.get("display_name") or said.get("name"))
        newest = next((reading.version(each) for each in service.versions(api, id, name)), None)
        if newest is not None and newest.sha256:
            state = "as applied"
        elif reading.mark_of(said) is None:
            state = "not ours"
        else:
            state = "being applied" if newest is None else "edited"
        runs = running.runs_in(api, name, id, experiment or name)
        last = next((running.execution(name, run).summary() for run in runs), None)
        modified = newest.created if newest is not None else service.seconds(said.get("created_at"))
        yield Listed(name, {"id": id}, state, modified, newest and newest.sha256, last)
