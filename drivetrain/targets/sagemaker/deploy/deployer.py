"""SageMaker as the commands see it; see ../../deployer.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import Applied, Tell
from drivetrain.deploying.project import project_of
from drivetrain.targets.deployer import LATEST, DeployedRuns, Deployer, Handle, Starter, StartRequest, runs_command
from drivetrain.targets.sagemaker.account import Account, checked_region, region_or_default
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy import desired as wishing
from drivetrain.targets.sagemaker.deploy.deployed import OWNER
from drivetrain.targets.sagemaker.deploy.executions.execution_report import report
from drivetrain.targets.sagemaker.deploy.executions.executions import of_arn
from drivetrain.targets.sagemaker.deploy.executions.following import FollowedExecution
from drivetrain.targets.sagemaker.deploy.listing import deployed_pipelines
from drivetrain.targets.sagemaker.deploy.ownership import Owner
from drivetrain.targets.sagemaker.settings import NAME, Settings, settings_of

if TYPE_CHECKING:
    from drivetrain.deploying.plan import Plan, Terms
    from drivetrain.deploying.runs import Listed, RemoteRun, Report
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.compile.compile import Compiled
    from drivetrain.targets.sagemaker.deploy.applying.destroying import Remains

Json = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """The desired state of a pipeline, and the state in the account under its name."""

    desired: wishing.Desired
    deployed: reading.Deployed | None


def connect(
    deployment: Deployment | None, *, region: str | None, operand: str = "", options: Sequence[str] = ()
) -> Deployer:
    """The account of the credentials, in the region that is given, or of the settings, or of the environment."""
    if region is not None:
        checked_region(region)
    if deployment is None:
        return SageMaker(region_or_default(region), None)
    return SageMaker(region or settings_of(deployment).region, deployment)


class SageMaker(DeployedRuns):
    """An account in a region."""

    states: Mapping[str, str] = {
        "edited": "Edited since the last apply; to see how: drivetrain pull NAME --dry-run",
        "being applied": "Apply is at work, or was cut short; applying again ends it: drivetrain apply NAME",
        "not ours": "Not made by drivetrain; to take one over: drivetrain pull NAME --adopt",
        "not readable": "Not readable: these credentials may not look at it",
    }

    def __init__(self, region: str, deployment: Deployment | None) -> None:
        self.place = region
        self._deployment = deployment

    def again(self, pipeline: str, *words: str) -> str:
        return " ".join((pipeline, *words, "--region", self.place))

    def about_runs(self, command: str, pipeline: str, *words: str) -> str:
        return runs_command(command, words, NAME, pipeline, ("--region", self.place))

    @cached_property
    def account(self) -> Account:
        return Account(self.place)

    @property
    def where(self) -> str:
        return self.account.where

    @property
    def settings(self) -> Settings:
        return settings_of(self._written)

    @property
    def _written(self) -> Deployment:
        assert self._deployment is not None, "the commands that write have settings"
        return self._deployment

    @property
    def owner(self) -> Owner:
        """The owner of pipelines that are deployed with these settings."""
        return Owner(self.settings.root, project_of(self._written))

    def wanted(self, compiled: Compiled) -> Wanted:
        wishing.check_place(self.settings)
        there = reading.read(self.account, compiled.pipeline.name)
        return Wanted(wishing.desired(compiled, self.account, None if there is None else there.arn), there)

    def wanted_definition(self, name: str, raw: Any) -> Wanted:
        wishing.check_place(self.settings)
        there = reading.read(self.account, name)
        arn = None if there is None else there.arn
        return Wanted(wishing.desired_definition(name, raw, self._written, self.account, arn), there)

    def plan(self, wanted: Wanted, terms: Terms | None = None) -> Plan:
        from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan

        return make_plan(self.account, wanted.desired, wanted.deployed, terms, whole=True)

    def apply(self, wanted: Wanted, plan: Plan, tell: Tell) -> Applied:
        from drivetrain.targets.sagemaker.deploy.applying.applying import apply

        return apply(self.account, wanted.desired, plan, tell=tell)

    def remains(self, name: str, *, foreign: bool = False) -> Remains:
        from drivetrain.targets.sagemaker.deploy.applying.destroying import remains

        wishing.check_place(self.settings, "bucket")
        return remains(self.account, name, self.owner, foreign=foreign)

    def destroy(self, what: Remains, tell: Tell) -> Remains:
        from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy

        return destroy(self.account, what, tell=tell)

    def kept(self, name: str) -> str:
        return f"{self.settings.root}/{name}/"

    def start(self, pipeline: str, request: StartRequest) -> Handle:
        from drivetrain.targets.sagemaker.deploy.executions import executions

        self._check_ours(pipeline)
        if request.source is not None:
            request = replace(request, source=self.find(pipeline, request.source).address)
        return _named(executions.start(self.account, pipeline, request))

    def _check_ours(self, pipeline: str) -> None:
        """Check the pipeline's owner, if settings name one and not only the region.

        Raises:
            UserError: another one deployed it.
        """
        if self._deployment is None or self.settings.bucket == Settings().bucket:
            return
        there = reading.read_pipeline(self.account, pipeline)
        if there is None:
            return  # which is said as it is started
        tags = reading.read_tags(self.account, pipeline, there.arn)
        owner = self.owner
        if not owner.project:  # outside of a repository, any project's of these settings is started
            owner = replace(owner, project=tags.get(OWNER, "").partition(" ")[2])
        if (other := owner.other_in(tags)) is not None:
            raise UserError(
                f"Pipeline {pipeline!r} there is not this project's: it belongs to {other}. Give yours another name; "
                f"to start theirs all the same, name it by the region alone: drivetrain start {self.again(pipeline)}"
            )

    def find(self, pipeline: str, which: str = LATEST) -> Handle:
        if which.startswith("arn:"):
            return _named(of_arn(which, pipeline))
        return super().find(pipeline, which)

    def followed(self, handle: Handle) -> FollowedExecution:
        return FollowedExecution(self.account, handle.address)

    def report_of(self, run: RemoteRun) -> Report:
        return report(self.account, run)

    def handle(self, run: RemoteRun) -> Handle:
        return _named(run.arn)

    def stop(self, handle: Handle) -> None:
        from drivetrain.targets.sagemaker.deploy.executions import executions

        executions.stop(self.account, handle.address)

    def executions(self, pipeline: str, limit: int | None) -> Sequence[RemoteRun]:
        from drivetrain.targets.sagemaker.deploy.executions.executions import executions

        return executions(self.account, pipeline, limit)

    def pipelines(self, limit: int) -> Iterable[Listed]:
        return deployed_pipelines(self.account, limit)

    def starter(self, pipeline: Pipeline, tell: Tell) -> Starter:
        raise UserError(
            "On SageMaker nothing is to be served: `drivetrain apply` deploys rules and schedules, which start the "
            "pipeline (docs/triggers.md)."
        )


def _named(arn: str) -> Handle:
    return Handle(arn.rpartition("/")[2], arn, "arn", arn.rpartition(":pipeline/")[2].partition("/")[0])
