"""The protocol of deployers. A target that deploys has a folder `deploy` with a file `deployer.py` that keeps it.

    deployer = find_deploying("kubeflow").connect(deployment, region=None, operand="retraining", options=())
    wanted = deployer.wanted(compiled)             # what the code says
    plan = deployer.plan(wanted)                   # what applying would change
    deployer.apply(wanted, plan, print)
    execution = deployer.start("retraining", StartRequest(parameters={"MinAccuracy": "0.9"}))

It is imported when a command needs it, so that a target that is only compiled for needs no client of any service.
"""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, cast

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import duration
from drivetrain.deploying.applying import Applied, Tell
from drivetrain.deploying.runs import LATEST, find
from drivetrain.targets.target import find_target

if TYPE_CHECKING:
    from drivetrain.deploying.following import FollowedRun, LogLine
    from drivetrain.deploying.plan import Plan, Terms
    from drivetrain.deploying.runs import Listed, RemoteRun, Report
    from drivetrain.run_store.events import Event
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline

Json = dict[str, Any]
FOLLOWING_SECONDS = 600.0
"""Following an execution goes on for so long without an answer."""
FOLLOWING_PAUSE_SECONDS = 5.0


def say_unanswered(problem: str) -> None:
    """Say to the user who follows an execution why nothing is new: on stderr, since stdout has what is followed."""
    print(f"{problem} Following goes on, for up to {duration(FOLLOWING_SECONDS)}.", file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """How an execution is to be started. A field that a target does not know must be left as it is here."""

    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name -> value as text; checked against what is deployed."""
    name: str | None = None
    select: Sequence[str] = ()
    """The steps to be run, where not all are."""
    source: str | None = None
    """The execution whose results stand for the other steps."""
    parallel: int | None = None
    version: int | None = None
    alias: str | None = None
    token: str | None = None
    """However often it is asked for with the same token, it is started once."""
    fresh: bool = False

    def refuse(self, known: Iterable[str], title: str) -> None:
        """Refuse options that a target does not have.

        Raises:
            UserError: the first one that is given.
        """
        options = {"select": "--select", "source": "--from", "parallel": "--parallel", "version": "--version"}
        for name, option in {**options, "alias": "--alias"}.items():
            if name not in known and getattr(self, name):
                raise UserError(f"{title} has nothing like {option}. Leave it out.")


@dataclass(frozen=True)
class Handle:
    """One execution: its id, and the address by which the target knows it.

    `word` is what the address is: `arn` or `url`.
    """

    id: str
    address: str
    word: str
    pipeline: str

    def to_json(self) -> Json:
        return {"execution": self.id, self.word: self.address}


class Remains(Protocol):
    """The parts of a deployment that destroying takes away."""

    @property
    def is_empty(self) -> bool: ...
    @property
    def kept(self) -> tuple[str, ...]:
        """The parts that stay though apply made them, and why: a line each."""
        ...

    def lines(self) -> list[str]: ...
    def to_json(self) -> Json: ...


class Starter(Protocol):
    """Starts a deployed pipeline by events of a registry that tells nobody of them."""

    def poll(self) -> None:
        """Look once, and start what is to be started. What fails comes again at the next look.

        Raises:
            UserError: something does not answer.
        """
        ...


class DeployedRuns(Protocol):
    """The runs of deployed pipelines at one place. Deployers inherit what is the same on every target."""

    def again(self, pipeline: str, *words: str) -> str:
        """The pipeline, words, and the options by which another command finds it: `nightly --region us-east-1`."""
        ...

    def about_runs(self, command: str, pipeline: str, *words: str) -> str:
        """A command about the runs of the pipeline here: `drivetrain runs show 8f3 --on sagemaker -p nightly --region
        us-east-1`."""
        ...

    def executions(self, pipeline: str, limit: int | None) -> Sequence[RemoteRun]:
        """The newest first, without their steps."""
        ...

    def handle(self, run: RemoteRun) -> Handle:
        """The handle of one of them."""
        ...

    def followed(self, handle: Handle) -> FollowedRun:
        """The run, to be looked at."""
        ...

    def report_of(self, run: RemoteRun) -> Report:
        """The report of a run that was looked at closely."""
        ...

    def find(self, pipeline: str, which: str = LATEST) -> Handle:
        """An execution by its id, the beginning of it, its name, `latest`, or `latest~1`."""
        start, listed = f"drivetrain start {self.again(pipeline)}", self.about_runs("list", pipeline)
        return self.handle(
            find(lambda limit: self.executions(pipeline, limit), pipeline, which, start=start, listed=listed)
        )

    def report(self, handle: Handle) -> Report:
        """How it goes, or went."""
        return self.report_of(self.followed(handle).look(closely=True))

    def follow(self, handle: Handle, tell: Callable[[Event], object]) -> Report:
        """Tell of it until it ends."""
        from drivetrain.deploying.following import follow

        return self.report_of(follow(self.followed(handle), tell))

    def read_log(
        self,
        handle: Handle,
        step: str | None,
        write: Callable[[LogLine], object],
        *,
        follow: bool = False,
        num_lines: int | None = None,
    ) -> None:
        """Give the lines of a step's log to `write`: of the failed, running or last one unless a step is named."""
        from drivetrain.deploying.following import read_log

        read_log(self.followed(handle), step, write, follow=follow, num_lines=num_lines)


class Deployer(DeployedRuns, Protocol):
    """One place of a target: an account and region, a namespace of a cluster. Nothing is asked when it is made.

    All methods raise UserError with one clear message: what is refused, what is unreachable, what to do.
    """

    @property
    def where(self) -> str:
        """`account 123456789012, us-east-1`."""
        ...

    @property
    def place(self) -> str:
        """Short: `us-east-1`."""
        ...

    @property
    def states(self) -> Mapping[str, str]:
        """State of a listed pipeline -> what to do about it."""
        ...

    def wanted(self, compiled: Any) -> Any:
        """Turn what the target compiled into what the code wants deployed, as `plan` and `apply` take it."""
        ...

    def wanted_definition(self, name: str, raw: Any) -> Any:
        """Likewise of a definition that came as a file."""
        ...

    def plan(self, wanted: Any, terms: Terms | None = None) -> Plan:
        """Compare with what is deployed; nothing is written."""
        ...

    def apply(self, wanted: Any, plan: Plan, tell: Tell) -> Applied:
        """Do what the plan says, or refuse it; half-way it takes back what it can."""
        ...

    def remains(self, name: str, *, foreign: bool = False) -> Remains:
        """Find what there is to destroy."""
        ...

    def destroy(self, what: Any, tell: Tell) -> Remains:
        """Take it away; gives what went."""
        ...

    def kept(self, name: str) -> str:
        """The place of what executions wrote, which destroying leaves there."""
        ...

    def start(self, pipeline: str, request: StartRequest) -> Handle:
        """Start what is deployed."""
        ...

    def stop(self, handle: Handle) -> None:
        """Ask it to end."""
        ...

    def pipelines(self, limit: int) -> Iterable[Listed]:
        """The deployed pipelines, by name."""
        ...

    def starter(self, pipeline: Pipeline, tell: Tell) -> Starter:
        """Return what starts the deployed pipeline by its triggers of events, if the target does not do it by
        itself."""
        ...


class Deploying(Protocol):
    """The names that a `deploy/deployer.py` has."""

    def connect(
        self, deployment: Deployment | None, *, region: str | None, operand: str = "", options: Sequence[str] = ()
    ) -> Deployer:
        """The place that the settings name; without settings, the place that the environment names.

        Args:
            region: what `--region` says.
            operand, options: the word and the options by which the command line found the settings, for commands that
                are advised.

        Raises:
            UserError: wrong settings.
        """
        ...


def runs_command(command: str, words: Sequence[str], target: str, pipeline: str, options: Sequence[str]) -> str:
    """`drivetrain runs COMMAND WORDS` about the runs of a deployed pipeline, for advice.

    Args:
        target: where it is deployed.
        pipeline: what names it on the command line.
        options: those that say where it is; `--target NAME` among them says what `--on` says.
    """
    where = list(options)
    if "--target" in where:
        place = where.index("--target")
        del where[place : place + 2]
    return shlex.join(["drivetrain", "runs", command, *words, "--on", target, "-p", pipeline, *where])


def find_deploying(name: str) -> Deploying:
    """Import the deployer of the target of that name.

    Raises:
        UserError: there is no such target, or it deploys nowhere.
    """
    target = find_target(name)
    package = f"drivetrain.targets.{name}.deploy"
    if find_spec(package) is None:
        raise UserError(f"{target.TITLE} cannot be deployed to. Compile for it: drivetrain compile --target {name}")
    return cast(Deploying, importlib.import_module(f"{package}.deployer"))
