"""How a definition is to run here (Options), and the request as a whole, which is kept beside a run so that it
can go on (run_store/home.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.base.masking import Masking
from drivetrain.base.records import dataclass
from drivetrain.run_store.home import SavedRequest
from drivetrain.run_store.statuses import ACCOUNT, REGION

if TYPE_CHECKING:
    from drivetrain.processes.mounts import Mode
    from drivetrain.spec.deployment import Deployment
    from drivetrain.targets.sagemaker.document.document import StepNode
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption

# The options that are given by the name of a step.
BY_STEP = ("callbacks", "functions", "stubs", "uncached")


def region_of(deployment: Deployment) -> str:
    """The region in the ARNs of a run here: that of the definition which is executed."""
    from drivetrain.targets.sagemaker.settings import settings_of

    return settings_of(deployment).region


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run a definition on this machine.

    Attributes:
        pipeline: the pipeline's name (a definition does not say it): what the cache and `runs list` go by.
        target: the platform that the pipeline was compiled for; for people, nothing runs by it.
        max_parallel: jobs at a time; the number of processors unless given.
        functions: what a Lambda step calls: ARN, function name or step name -> `module:function` or `file.py:function`.
        callbacks: Callback step -> the handler that answers in a person's place, spelled as in `functions`.
        stubs: step name -> what it would give (see stubs.py); the step is not run.
        image_commands: image URI or its last part (`name:tag`, `name`) -> the command to run in its place.
        data: s3:// URI -> local file or folder that lies there for this run.
        read_s3: copy other inputs from S3 with the caller's credentials.
        s3_views: s3:// URI -> the copy that the run began with (jobs/s3_inputs.py).
        mode: how /opt/ml is provided (container.py).
        cache: False runs every step; what they give is remembered all the same.
        uncached: steps that run each time, with the reason.
        triggered: something starts the pipeline by itself, so that a run ends early in which nothing is new.
        explain_cache: say field by field why a step hit or missed.
        interruptions: when training jobs lose their machines (interruption_simulation/).
        selected: the steps to be run, where not all are (selecting.py); what they need of others is taken from the
            execution `selected_from`, or the pipeline's latest.
        origin: how the definition was made (target, settings file, overrides), so that it can be made again with other
            settings; None for a definition that came as it is.
        settings: the pipeline's settings with their values, defaults included; for people, nothing runs by them.
        tags, name: what the user calls the run, to find it again.
        trackers: tracker -> its settings; who is told of the run (drivetrain/trackers), nothing runs by them.
        stop_grace_s: what a job gets between SIGTERM and SIGKILL when the user stops the run.
        region, account: stand in ARNs.
    """

    pipeline: str
    target: str = "sagemaker"
    max_parallel: int | None = None
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    callbacks: Mapping[str, str] = field(default_factory=dict[str, str])
    stubs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    image_commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    read_s3: bool = False
    s3_views: Mapping[str, str] = field(default_factory=dict[str, str])
    mode: Mode = "auto"
    cache: bool = True
    uncached: Mapping[str, str] = field(default_factory=dict[str, str])
    triggered: bool = False
    explain_cache: bool = False
    interruptions: tuple[Interruption, ...] = ()
    selected: tuple[str, ...] = ()
    selected_from: str | None = None
    origin: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    name: str | None = None
    trackers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    stop_grace_s: float = 10.0
    region: str = REGION
    account: str = ACCOUNT

    def __post_init__(self) -> None:
        if self.max_parallel is not None and self.max_parallel < 1:
            raise UserError(f"max_parallel is {self.max_parallel}. Allowed: 1 or more.")
        if self.mode not in ("auto", "namespace", "rewrite"):
            raise UserError(f"mode is {self.mode!r}. Allowed: auto, namespace, rewrite.")

    def for_iterations(self, names: Mapping[str, str]) -> Options:
        """Apply options of a step of a ForEach's body to it in every iteration (`names`: child -> that step), unless
        something else is said of the child."""
        changes: dict[str, Mapping[str, Any]] = {}
        for name in BY_STEP:
            given: Mapping[str, Any] = getattr(self, name)
            added = {child: given[body] for child, body in names.items() if body in given and child not in given}
            if added:
                changes[name] = {**given, **added}
        return replace(self, **changes) if changes else self

    def interrupts(self, step: StepNode) -> bool:
        """Return True if a training is to lose its machine."""
        if not self.interruptions:
            return False
        from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import of_step

        return bool(of_step(self.interruptions, step))

    @property
    def workers(self) -> int:
        return self.max_parallel or os.cpu_count() or 1

    def to_json(self) -> dict[str, Any]:
        """As kept beside the run, so that a resumed one works alike."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Options:
        fields: dict[str, Any] = dict(data)
        commands: Mapping[str, Any] = data.get("image_commands", {})
        fields["image_commands"] = {image: tuple(command) for image, command in commands.items()}
        if given := data.get("interruptions"):
            from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption

            fields["interruptions"] = tuple(map(Interruption.from_json, given))
        else:
            fields["interruptions"] = ()
        fields["selected"] = tuple(data.get("selected", ()))
        return Options(**fields)


@dataclass(frozen=True)
class Request:
    """A definition's text with the typed value of every parameter and the options."""

    text: str
    parameters: Mapping[str, Any]
    options: Options

    @property
    def definition_hash(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def hash(self) -> str:
        """Equal for requests that ask for the same run: pipeline, definition, parameters, selected steps and the
        execution that the others are taken from, and whether every step is to run."""
        options = self.options
        selected = [sorted(options.selected), options.selected_from] if options.selected else []
        more = [*selected, *([] if options.cache else ["every step"])]
        text = json.dumps([self.options.pipeline, self.definition_hash, self.parameters, *more], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def masking(self) -> Masking:
        """For the secrets that the run was given: in its parameters, and in the definition as far as it is known."""
        from drivetrain.targets.sagemaker.document.expressions import ParameterScope
        from drivetrain.targets.sagemaker.run.execution.scope import resolve_known

        known = resolve_known(json.loads(self.text), ParameterScope(self.parameters))
        return Masking.of(self.parameters, known)

    def save(self, folder: Path) -> None:
        SavedRequest(self.text, self.parameters, self.options.to_json()).save(folder)

    @staticmethod
    def load(folder: Path) -> Request:
        """The request of an execution.

        Raises:
            UserError: the run's folder was removed.
        """
        saved = SavedRequest.load(folder)
        return Request(saved.text, saved.parameters, Options.from_json(saved.options))


def masking_of(folder: Path) -> Masking:
    """For the secrets that a run was given: a program may have printed one, and a terminal is looked at by others."""
    try:
        return Request.load(folder).masking()
    except UserError:  # the run's folder was removed, and with it its logs
        return Masking()
