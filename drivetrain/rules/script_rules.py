"""Rules about trainings by a script of the user's own (the component train_script)."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import InputError
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import TRAIN_SCRIPT, TrainingStep

rule = RuleBook()


@rule.each(TrainingStep)
def roles_fit_the_processes(step: TrainingStep, graph: Graph) -> Iterator[str]:
    roles = step.parameters.get("roles")
    if step.program.target != TRAIN_SCRIPT or not isinstance(roles, str) or not roles:
        return
    launcher = step.parameters.get("launcher", "torchrun")
    if isinstance(launcher, str) and launcher != "tf_config":
        yield (
            f"step {step.name!r}: roles={roles!r} are those of TF_CONFIG, and launcher={launcher!r} writes none. "
            "Give launcher='tf_config', or leave roles out."
        )
        return
    from drivetrain.training.launch.cluster import Cluster
    from drivetrain.training.launch.tf_config import read_roles, with_processes

    hosts, processes = step.cluster.count, step.parameters.get("processes") or step.cluster.processes or 0
    try:
        read = read_roles(roles)
        if isinstance(hosts, int) and isinstance(processes, int):
            with_processes(Cluster(tuple(map(str, range(hosts)))), read, processes)
    except InputError as error:
        yield f"step {step.name!r}: {error}"
