"""The execution of a step: programs, machines, spot, retries, cache, checkpoints, file
systems.

Training data may lie on a file system that is there already: `fsx://fs-0123456789abcdef0/mount/folder`, `efs://fs-.../folder`.

It is mounted instead of copied, read-only unless the URI ends with `?access=rw`. The path is whole: that of FSx for
Lustre begins with the file system's mount name.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from drivetrain.base.records import dataclass
from drivetrain.catalog import quotas
from drivetrain.catalog.instances import DEFAULT_TYPE
from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Matching
from drivetrain.spec.values import ParameterRef, Pending, Value

MODEL_LIBRARIES = frozenset(
    ("catboost", "jax", "keras", "lightgbm", "sklearn", "tensorflow", "torch", "transformers", "xgboost")
)
"""By their imports: the libraries by which models are made, which decide who can serve them."""

EVALUATE = "drivetrain.components.evaluate:evaluate"
CALIBRATE = "drivetrain.components.calibrate:calibrate"
DESCRIBE_MODEL = "drivetrain.components.describe_model:describe_model"
TRAIN_TABLE = "drivetrain.components.train_table:train_table"
MAKE_MODELS_OF_FUNCTIONS = (DESCRIBE_MODEL, TRAIN_TABLE)
"""The components whose output `model` answers by two functions, not by a framework of ours."""
BATCH_PREDICT = "drivetrain.components.batch_predict:batch_predict"
COMPARE = "drivetrain.components.compare:compare"
CHECK_DATA = "drivetrain.components.check_data:check_data"
CHECK_SERVED = "drivetrain.components.check_served:check_served"
KEEP_EVIDENCE = (COMPARE, CHECK_DATA, CHECK_SERVED)
"""The components that keep something of a model's group with its registry."""
READ_SOURCE = "drivetrain.components.read_source:read_source"
REGISTER_MODEL = "drivetrain.components.register_model:register_model"
SOURCE_VERSION = "drivetrain.components.source_version:source_version"
SOURCES_VARIABLE = "DRIVETRAIN_SOURCES"
"""The version of what lies behind a step's input; of a second one in DRIVETRAIN_SOURCES_2, and so on. No program reads
it: it stands in the step's cache key."""


class Program(Frozen, defer_build=False):
    """A program: a component (`module:function`) or a script of the user's (a path below the source folder)."""

    kind: Literal["component", "script"]
    target: str
    needs: tuple[str, ...] = ()
    """Distributions that the program imports; those the image lacks travel with the code."""
    libraries: tuple[str, ...] = ()
    """Those of MODEL_LIBRARIES that a component's function imports."""


class FolderPath(Frozen):
    """In a script's arguments: the place where the platform puts this input or collects this output."""

    kind: Literal["folder"] = "folder"
    flow: Literal["input", "output"]
    name: str


SCHEMES = {"fsx": "FSxLustre", "efs": "EFS"}
_URI = re.compile(r"(?P<scheme>fsx|efs)://(?P<id>fs-[0-9a-f]{8,18})(?P<path>/[^?#]*)(?:\?access=(?P<access>ro|rw))?")
ALLOWED = (
    "fsx://fs-0123456789abcdef0/mount/folder, efs://fs-0123456789abcdef0/folder, with ?access=rw where it is written"
)


@dataclass(frozen=True)
class FileSystem:
    """A folder of a file system, in the service's words: `FSxLustre` or `EFS`, access `ro` or `rw`."""

    type: str
    id: str
    path: str
    access: str


def is_file_system(value: object) -> bool:
    """Return True if a value means a file system, well written or not."""
    return isinstance(value, str) and value.partition("://")[0] in SCHEMES and "://" in value


def file_system(uri: str) -> FileSystem | None:
    """The file system that a URI names; None for a malformed one."""
    found = _URI.fullmatch(uri)
    if found is None or ".." in found["path"].split("/"):
        return None
    return FileSystem(SCHEMES[found["scheme"]], found["id"], found["path"], found["access"] or "ro")


class Spot(Frozen):
    """Spare capacity: up to 90 % cheaper, and it can be taken back at any moment."""

    max_wait_seconds: Annotated[int, Field(gt=0)] = 172_800
    """Longest time from start to end, waiting for capacity included; at least the run's own limit. Two days by default,
    twice the default of max_run_seconds."""
    max_interruptions: Annotated[int, Field(ge=1)] | None = None
    """How often in a row the job may be interrupted before it fails, to go on on demand; as often as it comes unless
    given."""


def _reference(value: Any) -> Any:
    """A parameter stands for the reference to it; a bare `True` says too little."""
    if isinstance(value, bool):
        # Not a ValueError, before whose message pydantic writes its own word.
        raise PydanticCustomError(
            "spot", "say how long the job may take with waiting, spot=Spot(max_wait_seconds=...); None is on demand"
        )
    ref: Any = getattr(value, "ref", None) if isinstance(value, Pending) else None
    return value if ref is None else ref()


class Network(Frozen):
    """The network of a job's machines, and whom its program can reach."""

    subnets: Annotated[
        tuple[Annotated[str, Matching(r"subnet-[0-9a-z]+", "ids of subnets, such as subnet-0ab12c34")], ...],
        Field(max_length=quotas.MAX_SUBNETS),
    ] = ()
    """Subnets of the VPC that the machines stand in; the service's own network unless given."""
    security_groups: Annotated[
        tuple[Annotated[str, Matching(r"sg-[0-9a-z]+", "ids of security groups, such as sg-0ab12c34")], ...],
        Field(max_length=quotas.MAX_SECURITY_GROUPS),
    ] = ()
    """Security groups of that VPC. Hosts that talk to each other, by EFA above all, need a rule that allows all
    traffic of the group to itself."""
    isolated: bool = False
    """The program reaches nothing but the other hosts of its job; its data is brought and fetched for it."""
    encrypt_traffic: bool = False
    """Encrypt what the hosts of a job say to each other; slower by as much as they talk."""


class InstanceGroup(Frozen):
    """More hosts of a training job, of another type."""

    name: Annotated[
        str, Matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "at most 64 letters, digits, '-' and '_', such as workers")
    ]
    instance_type: str
    count: Annotated[int, Field(ge=1)] = 1


class Alternative(Frozen):
    """A type of machines to take where there is no capacity of those that stand before it."""

    instance_type: str
    count: Annotated[int, Field(ge=1)] | None = None
    """Number of hosts; that of the cluster unless given."""


class Resources(Frozen):
    """Requests of a step's container where machines are shared; on SageMaker the instance type says it."""

    cpu: Annotated[float, Field(gt=0)] | None = None
    """Cores."""
    memory_gib: Annotated[float, Field(gt=0)] | None = None
    accelerators: Annotated[int, Field(ge=0)] = 0
    """Accelerators of one host."""
    accelerator_type: Annotated[str, Field(min_length=1)] = "nvidia.com/gpu"
    """The resource that the cluster calls them."""
    node_selector: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Labels of the nodes that will do."""
    tolerations: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Key -> value of the taints that the step tolerates; an empty value means any."""


class Cluster(Frozen):
    """The machines of one step."""

    instance_type: str | ParameterRef | None = None
    """A type of machine by its name in the cloud; the target's default unless given."""
    count: Annotated[int, Field(ge=1)] | ParameterRef = 1
    """Number of hosts."""
    resources: Resources | None = None
    """Requests of a host's container, on targets that share machines; those of the instance type unless given."""
    processes: Annotated[int, Field(ge=1)] | None = None
    """Processes a host; one a GPU, or one, unless given."""
    volume_gb: Annotated[int, Field(ge=1)] = 30
    max_run_seconds: Annotated[int, Field(gt=0)] = 86_400
    spot: Annotated[Spot | ParameterRef | None, BeforeValidator(_reference)] = None
    """Never a parameter: it is taken here so that the rule can say why."""
    warm_pool_seconds: Annotated[int, Field(ge=1, le=quotas.MAX_WARM_POOL_SECONDS)] | None = None
    """How long the machines of a training job stay for the next one, in seconds."""
    groups: tuple[InstanceGroup, ...] = ()
    """Further hosts of a training job, which makes it a heterogeneous cluster; those above are the group `main`. All
    run the same program, which looks at its group."""
    alternatives: tuple[Alternative, ...] = ()
    """Other machines, in this order, if `instance_type` has no capacity."""
    efa: bool = False
    """Several hosts of a training job talk by their Elastic Fabric Adapters or not at all: without this a program that
    finds none falls back to TCP, many times slower, and says so only in its log."""
    network: Network | None = None
    """That of the deployment unless given."""

    @property
    def machine(self) -> str | ParameterRef | None:
        """The instance type, where one is given or the default counts; None where `resources` stand alone."""
        if self.instance_type is not None or self.resources is not None:
            return self.instance_type
        return DEFAULT_TYPE


RetryCause = Literal["service_error", "throttling", "job_error", "no_capacity", "quota"]
"""Why a step failed, as far as trying again can help: the platform had an error of its own, it was asked too often, the
job was lost by the platform, there were no machines, or a quota was used up."""


class RetryPolicy(Frozen):
    """When a step is tried again by itself."""

    causes: Annotated[tuple[RetryCause, ...], Field(min_length=1)]
    max_attempts: Annotated[int, Field(ge=1, le=quotas.MAX_RETRY_ATTEMPTS)] = 3
    """How many times it is tried again: 2 are three tries at most."""
    interval_seconds: Annotated[int, Field(ge=1)] = 1
    backoff_rate: Annotated[float, Field(ge=0)] = 2.0


class CachePolicy(Frozen):
    """Use of an earlier step with the same key in place of this one, and the age that it may have."""

    enabled: bool = True
    expire_after: str | None = None
    """An age such as `P30D`, `30d`, `PT12H`; without one a result never gets too old."""


class Checkpoint(Frozen):
    """The place of a training job's checkpoints."""

    uri: Value | None = None
    """A folder's URI; by default one below the pipeline's own prefix, named by step and configuration."""
    local_path: str | None = None
    """The folder in the container that is kept, for programs that expect one; the target's own unless given."""


class Mlflow(Frozen):
    """A tracking server, or an app, of managed MLflow."""

    arn: (
        Annotated[
            str,
            Matching(
                r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:mlflow-[a-zA-Z-]*/.+",
                "an ARN such as arn:aws:sagemaker:eu-central-1:123456789012:mlflow-tracking-server/team",
            ),
        ]
        | None
    ) = None
    """None means no MLflow."""
    experiment: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The MLflow experiment that runs belong to."""
    run: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The run's name; of one training alone."""
