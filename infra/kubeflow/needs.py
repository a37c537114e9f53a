"""The needs of a pipeline on a cluster: read from the pipeline and its settings, before any object is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.base.errors import UserError
from drivetrain.spec.pipeline import GroupTrigger, Pipeline
from drivetrain.spec.steps import JobStep, TrainingStep, flatten, is_our_training
from drivetrain.targets.kubeflow.compile import retries
from drivetrain.targets.kubeflow.compile.checks import task_name
from drivetrain.targets.kubeflow.compile.train_job import FRAMEWORKS, Framework, framework_of, num_nodes
from drivetrain.targets.kubeflow.settings import BLOCK, Settings, settings_of

# The key pair of MPI jobs' ssh.
SSH_SECRET = "drivetrain-mpi-ssh"
# A label's value has at most 63 characters, and so has a name; the longest suffix is `-tensorboard`.
MAX_NAME = 63 - len("-tensorboard")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The needs of one pipeline beside Kubeflow itself."""

    pipeline: Pipeline
    name: str
    """The pipeline's, as a DNS label: names of objects hold it."""
    settings: Settings
    frameworks: tuple[Framework, ...]
    """The runtimes of trainings that are TrainJobs; empty where each step is one pod of Pipelines."""
    trains: bool
    """True if a step writes TensorBoard's files."""
    events: tuple[GroupTrigger, ...]
    """Triggers for which the model registry and its evidence are polled."""

    @property
    def root(self) -> str:
        """URI below which the pipeline's runs write."""
        return f"{self.settings.root}/{self.pipeline.name}"

    @property
    def repeats(self) -> bool:
        """True where a step relies on being tried again."""
        return retries.are_needed(self.pipeline)

    @property
    def makes_train_jobs(self) -> bool:
        """True if a step creates TrainJobs."""
        return bool(self.frameworks)


def needs_of(pipeline: Pipeline) -> Needs:
    """Read the needs of a pipeline.

    Raises:
        SpecError: a wrong setting of the deployment.
        UserError: a name that is too long; a setting that is missing for what the pipeline does.
    """
    settings = settings_of(pipeline.deployment)
    name = task_name(pipeline.name)
    if len(name) > MAX_NAME:
        raise UserError(
            f"The pipeline's name {pipeline.name!r} has {len(name)} characters. Names of objects on Kubernetes begin "
            f"with it, so at most {MAX_NAME} are allowed. Give the pipeline a shorter name."
        )
    jobs = [step for step in flatten(pipeline.steps) if isinstance(step, JobStep)]
    used = {framework_of(step) for step in jobs if isinstance(step, TrainingStep) and num_nodes(step, settings)}
    needs = Needs(
        pipeline=pipeline,
        name=name,
        settings=settings,
        frameworks=tuple(each for each in FRAMEWORKS if each in used),
        trains=any(is_our_training(step) for step in jobs),
        events=tuple(each for each in pipeline.triggers if isinstance(each, GroupTrigger) and each.enabled),
    )
    _check(needs)
    return needs


def own_runtimes(needs: Needs) -> dict[str, Framework]:
    """The runtimes of ours that the pipeline's trainings use: name -> framework. Any other runtime is not ours."""
    ours: dict[str, Framework] = {f"drivetrain-{framework}": framework for framework in needs.frameworks}
    return {name: each for name, each in ours.items() if getattr(needs.settings.trainer, each) == name}


def _check(needs: Needs) -> None:
    infrastructure = needs.settings.infrastructure
    if infrastructure.steps_reach == "named" and infrastructure.kubernetes_api is None:
        raise UserError(
            f"{BLOCK}.infrastructure.steps_reach is 'named', and kubernetes_api beside it is not set, which the pod of "
            "each step calls. Set it to https://ADDRESS:PORT of: kubectl get endpoints kubernetes"
        )
    if needs.makes_train_jobs and needs.settings.service_account is None:
        raise UserError(
            f"{BLOCK}.service_account is not set, and a training on several nodes (or any, by trainer.one_node) needs "
            f"an account that may create TrainJobs. Set it to a name, such as {needs.name!r}: the account is made with "
            "the other objects."
        )
    if needs.events and needs.settings.registry is None:
        raise UserError(
            f"{BLOCK}.registry is not set, and trigger {needs.events[0].name!r} asks the model registry. Set it, for "
            "example to kubeflow:http://model-registry-service.kubeflow:8080."
        )
    if needs.events and not needs.settings.endpoint:
        raise UserError(
            f"{BLOCK}.endpoint is not set, and trigger {needs.events[0].name!r} starts runs by the Pipelines API. Set "
            "it, for example to http://ml-pipeline.kubeflow:8888."
        )
