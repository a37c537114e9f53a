"""The records of what the steps of a definition touch: roles, S3 places, images, keys, networks, functions, queues,
groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

from drivetrain.targets.sagemaker.permissions.places import S3Place


@dataclass(frozen=True, kw_only=True)
class Network:
    """A private network that a job's machines stand in."""

    subnets: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Use:
    """One step and what it touches."""

    step: str
    type: str
    job: str = ""
    """The name of its job or other resource."""
    jobs: tuple[str, ...] = ()
    """The names that it may have, by a parameter's choices; `each` makes one of each."""
    role: str | None = None
    """The role that the job itself works under; None for steps that the pipeline does by itself, and where it is not
    known."""
    roles: tuple[str, ...] = ()
    """The roles that it may work under, by a parameter's choices."""
    reads: tuple[S3Place, ...] = ()
    writes: tuple[S3Place, ...] = ()
    images: tuple[str, ...] = ()
    """ARNs of ECR repositories."""
    output_keys: tuple[str, ...] = ()
    """ARNs of KMS keys that results are encrypted with."""
    encrypts: tuple[tuple[S3Place, str], ...] = ()
    """The places that it writes to, with the key of `output_keys` by which they are encrypted."""
    volume_keys: tuple[str, ...] = ()
    network: Network | None = None
    debug: bool = False
    """True if people may look into the running container."""
    properties: tuple[S3Place, ...] = ()
    """Property files that conditions read."""
    groups: tuple[str, ...] = ()
    """Model package groups that the step asks or writes: names, and ARNs of those that live elsewhere."""
    writes_registry: bool = False
    sends_findings: bool = False
    """True if the program sends what it finds in served data as events."""
    targets: tuple[str, ...] = ()
    """ARNs of what a Lambda, Callback, EMR or other step calls."""
    passes: tuple[tuple[str, str], ...] = ()
    """Further roles that are passed on, each with the service that gets it."""
    makes: bool = False
    """True if the step makes the cluster or application that it works on."""

    def each(self) -> tuple[Use, ...]:
        """The use with each name and under each role that it may have."""
        return tuple(
            replace(self, job=job, jobs=(), role=role, roles=())
            for job in self.jobs
            for role in self.roles or (self.role,)
        )


@dataclass
class Reading:
    """The uses of a definition, and what could not be found out."""

    uses: tuple[Use, ...]
    notes: tuple[str, ...]
    experiments: tuple[str, ...] = ()
    """Names of the experiments that executions are kept in."""
    trials: tuple[str, ...] = ()
    files: tuple[S3Place, ...] = ()
    """Objects that Std:JsonGet reads by their URI, which the pipeline itself does."""

    @property
    def encrypted(self) -> tuple[tuple[S3Place, str], ...]:
        """The places that steps write, with the keys that they name for it."""
        return tuple(dict.fromkeys(pair for use in self.uses for pair in use.encrypts))
