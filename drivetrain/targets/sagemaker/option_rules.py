"""Rules about what SageMaker offers beside machines and time: networks, keys, groups of hosts, how data comes.

What the service accepts and then ignores is refused, too: an option that does nothing is a mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from drivetrain.base.errors import did_you_mean
from drivetrain.catalog import quotas
from drivetrain.catalog.instances import find_instance, instance_names
from drivetrain.rules import RuleBook
from drivetrain.spec import resources
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import Network
from drivetrain.spec.steps import TRAIN, JobStep, TrainingStep
from drivetrain.spec.values import ParameterRef
from drivetrain.targets.sagemaker.settings import settings_of

rule = RuleBook("sagemaker")

MAIN_GROUP = "main"
ACCELERATED = ("ml.p", "ml.g", "ml.trn")


def network_of(step: JobStep, graph: Graph) -> Network:
    """The network that a step's job stands in."""
    return step.cluster.network or settings_of(graph.pipeline.deployment).network


def instance_types(step: JobStep, graph: Graph, *, groups: bool = True) -> tuple[str, ...] | None:
    """Every type that a step's machines may be of; None where the value of a parameter is only known at the start.

    Args:
        groups: those of further groups of hosts, too.
    """
    cluster = step.cluster
    first = cluster.machine
    types: tuple[str, ...]
    if isinstance(first, ParameterRef):
        declared = next((each for each in graph.pipeline.parameters if each.name == first.name), None)
        if declared is None or not declared.choices:
            return None
        types = tuple(map(str, declared.choices))
    else:
        types = () if first is None else (first,)
    others = (*(cluster.groups if groups else ()), *cluster.alternatives)
    return (*types, *(one.instance_type for one in others))


@rule
def networks_are_whole(graph: Graph) -> Iterator[str]:
    named = [("deployment.targets.sagemaker.network", settings_of(graph.pipeline.deployment).network)]
    named += [
        (f"step {step.name!r}: cluster.network", step.cluster.network)
        for step in graph.steps
        if isinstance(step, JobStep) and step.cluster.network is not None
    ]
    for where, network in named:
        if bool(network.subnets) != bool(network.security_groups):
            given, missing = ("subnets", "security_groups") if network.subnets else ("security_groups", "subnets")
            yield f"{where} has {given} and no {missing}. A job in a VPC needs both."


@rule.each(JobStep)
def isolated_programs_call_nobody(step: JobStep, graph: Graph) -> Iterator[str]:
    if not network_of(step, graph).isolated:
        return
    mend = f"Give the step a network of its own: cluster=Cluster(network=Network(...)) of {step.name!r}"
    if step.parameters.get("registry") not in (None, ""):
        yield (
            f"step {step.name!r} asks the model registry, which an isolated container cannot reach "
            f"(network.isolated). {mend}, without isolated."
        )
    if not isinstance(step, TrainingStep):
        return
    if step.options.remote_debug:
        yield (
            f"step {step.name!r}: options.remote_debug needs a connection to AWS Systems Manager, which an "
            "isolated container cannot make (network.isolated). Choose one."
        )
    if step.options.mlflow is not None:
        yield (
            f"step {step.name!r} is to report to MLflow, which an isolated container cannot reach "
            f"(network.isolated). {mend}, or leave options.mlflow out."
        )


@rule
def roles_are_of_jobs(graph: Graph) -> Iterator[str]:
    jobs = [step.name for step in graph.steps if isinstance(step, JobStep)]
    for name in settings_of(graph.pipeline.deployment).roles.steps:
        if name not in jobs:
            known = did_you_mean(name, jobs)
            yield f"deployment.targets.sagemaker.roles.steps names {name!r}, which is no step with a job. {known}"


@rule
def runs_of_mlflow_are_of_one_job(graph: Graph) -> Iterator[str]:
    mlflow = settings_of(graph.pipeline.deployment).mlflow
    if mlflow.run:
        yield (
            "deployment.targets.sagemaker.mlflow.run names one run for every execution of the pipeline. Give it to a "
            "training: options=TrainingOptions(mlflow=Mlflow(arn=..., run=...))."
        )
    if (mlflow.experiment or mlflow.run) and not mlflow.arn:
        yield (
            "deployment.targets.sagemaker.mlflow has no arn, so nothing is reported. Give the ARN of the tracking "
            "server or app."
        )
    for step in graph.steps:
        if isinstance(step, TrainingStep) and step.options.mlflow is not None and not step.options.mlflow.arn:
            yield f"step {step.name!r}: options.mlflow has no arn, so nothing is reported. Give the ARN."


@rule.each(JobStep)
def keys_fit_the_disks(step: JobStep, graph: Graph) -> Iterator[str]:
    if settings_of(graph.pipeline.deployment).keys.volume is None:
        return
    from drivetrain.catalog.instances import has_own_disk

    types = instance_types(step, graph)
    if types is None:
        yield (
            f"step {step.name!r}: deployment.targets.sagemaker.keys.volume is given, and cluster.instance_type is "
            "a parameter without choices. The service takes no key for machines with disks of their own, and no "
            "definition that drivetrain writes leaves the key out when it starts. Give the parameter choices, or "
            "make the type a setting."
        )
    elif len({has_own_disk(name) for name in types}) > 1:
        own = ", ".join(name for name in types if has_own_disk(name))
        yield (
            f"step {step.name!r}: deployment.targets.sagemaker.keys.volume is given, and of its machines {own} "
            "have disks of their own, for which the service takes no key, and others have not. Choose machines "
            "that are alike in that."
        )


@rule.each(JobStep)
def groups_of_hosts_fit(step: JobStep, graph: Graph) -> Iterator[str]:
    if not step.cluster.groups:
        return
    cluster = step.cluster
    if not isinstance(step, TrainingStep):
        yield f"step {step.name!r}: cluster.groups are for training jobs; remove them here."
        return
    names = [MAIN_GROUP, *(group.name for group in cluster.groups)]
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        yield f"step {step.name!r}: two groups of hosts have the name {doubled[0]!r} ({MAIN_GROUP!r} is the first)."
    if len(names) > quotas.MAX_INSTANCE_GROUPS:
        yield (
            f"step {step.name!r} has {len(names)} groups of hosts with {MAIN_GROUP!r}; at most "
            f"{quotas.MAX_INSTANCE_GROUPS}."
        )
    if cluster.warm_pool_seconds:
        yield f"step {step.name!r}: the service has no warm pools for heterogeneous clusters; choose one."
    if cluster.alternatives:
        yield f"step {step.name!r}: cluster.groups and cluster.alternatives exclude each other; choose one."
    if step.program.target == TRAIN:
        yield (
            f"step {step.name!r}: train does the same on every host, so hosts of another group would only hold it "
            "up. Use groups with a program of your own that looks at its group (train_script tells it as "
            "SM_CURRENT_INSTANCE_GROUP), and several hosts of one type here: cluster.count."
        )


@rule.each(JobStep)
def alternatives_fit(step: JobStep, graph: Graph) -> Iterator[str]:
    if not step.cluster.alternatives:
        return
    cluster = step.cluster
    if isinstance(cluster.machine, ParameterRef) or isinstance(cluster.count, ParameterRef):
        yield (
            f"step {step.name!r}: cluster.alternatives are a list that is written when the pipeline is compiled, "
            "so instance_type and count cannot be parameters. Make them settings."
        )
        return
    names = [cluster.machine, *(one.instance_type for one in cluster.alternatives)]
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        yield f"step {step.name!r}: {doubled[0]} stands twice among instance_type and alternatives."
    if len(names) > quotas.MAX_INSTANCE_PREFERENCES:
        yield (
            f"step {step.name!r} names {len(names)} instance types with its alternatives; at most "
            f"{quotas.MAX_INSTANCE_PREFERENCES}."
        )
    if cluster.spot is not None:
        yield (
            f"step {step.name!r}: the service chooses among instance types on demand only; choose spot machines or "
            "alternatives."
        )


@rule.each(JobStep)
def adapters_are_there(step: JobStep, graph: Graph) -> Iterator[str]:
    if not step.cluster.efa:
        return
    if not isinstance(step, TrainingStep):
        yield f"step {step.name!r}: cluster.efa is for training jobs; remove it here."
        return
    if step.cluster.count == 1 and step.cluster.groups:
        yield (
            f"step {step.name!r}: cluster.efa joins the hosts of the group {MAIN_GROUP!r}, and that has one; the "
            "further groups do not count. Raise cluster.count, or remove efa."
        )
    elif step.cluster.count == 1:
        yield f"step {step.name!r}: cluster.efa joins hosts, and there is one. Raise cluster.count, or remove efa."

    for name in instance_types(step, graph, groups=False) or ():
        facts = find_instance(name)
        if facts is not None and not facts.efa:
            having = [each for each in instance_names() if (one := find_instance(each)) and one.efa]
            yield f"step {step.name!r}: {name} has no Elastic Fabric Adapter. {did_you_mean(name, having)}"


@rule.each(TrainingStep)
def waiting_makes_sense(step: TrainingStep, graph: Graph) -> Iterator[str]:
    if step.options.max_pending_seconds is None:
        return
    types = instance_types(step, graph)
    if types is not None and not any(name.startswith(ACCELERATED) for name in types):
        yield (
            f"step {step.name!r}: options.max_pending_seconds has no effect on machines without accelerators "
            f"({', '.join(types)}). Remove it; how long spot machines are waited for is spot.max_wait_seconds."
        )


@rule.each(JobStep)
def channels_come_as_they_can(step: JobStep, graph: Graph) -> Iterator[str]:
    for name, value in step.inputs.items():
        if not resources.is_file_system(value):
            continue
        if not isinstance(step, TrainingStep):
            yield f"input {name!r} of step {step.name!r} is {value!r}: only training jobs mount a file system."
        elif resources.file_system(str(value)) is None:
            yield f"input {name!r} of step {step.name!r} is {value!r}. Allowed: {resources.ALLOWED}."
        elif not network_of(step, graph).subnets:
            yield (
                f"input {name!r} of step {step.name!r} lies on a file system, which is only reached from its VPC. "
                "Give deployment.targets.sagemaker.network (or cluster=Cluster(network=...)) with subnets and "
                "security_groups."
            )
        elif name in step.options.input_modes:
            yield f"step {step.name!r}: input {name!r} lies on a file system and is mounted; it has no input mode."
    if isinstance(step, TrainingStep):
        for name in step.options.input_modes:
            if name not in step.inputs:
                yield (
                    f"step {step.name!r}: options.input_modes names no input with {name!r}. "
                    + did_you_mean(name, step.inputs)
                )
