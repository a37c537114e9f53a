"""Each rule about the options of jobs, broken; what is allowed is in the tests of the compiler."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import (
    Alternative,
    Cluster,
    Deployment,
    InstanceGroup,
    Keys,
    Mlflow,
    Network,
    Parameter,
    Pipeline,
    SpecError,
    Spot,
    TrainingOptions,
    step,
)
from drivetrain.catalog import quotas
from drivetrain.components import Input, Output, component
from drivetrain.components.train import train
from drivetrain.spec.resources import FileSystem, file_system
from drivetrain.targets.sagemaker.settings import Roles

SERVER = "arn:aws:sagemaker:eu-west-1:111122223333:mlflow-tracking-server/runs"
ISOLATED = Network(isolated=True)
VPC = Network(subnets=("subnet-1",), security_groups=("sg-1",))
READERS = InstanceGroup(name="readers", instance_type="ml.c5.xlarge")


@component
def load(raw: Input, data: Output, registry: str = "") -> None:
    """Load."""


@component(job="training")
def fit(data: Input, model: Output, rate: float = 0.1) -> None:
    """Fit."""


def loaded(cluster: Cluster | None = None, raw: str = "s3://b/raw/", **parameters: Any) -> Any:
    return step(load, raw=raw, cluster=cluster or Cluster(), **parameters)


def fitted(cluster: Cluster | None = None, data: Any = "s3://b/data/", **options: Any) -> Any:
    return step(fit, data=data, cluster=cluster or Cluster(), options=TrainingOptions(**options))


def refused(*steps: Any, parameters: tuple[Parameter, ...] = (), **deployment: Any) -> str:
    with pytest.raises(SpecError) as caught:
        Pipeline(
            name="p",
            steps=list(steps),
            parameters=list(parameters),
            deployment=Deployment(targets={"sagemaker": deployment}),
        )
    return str(caught.value)


def test_a_vpc_needs_subnets_and_security_groups() -> None:
    half = Network(subnets=("subnet-1",))
    assert "deployment.targets.sagemaker.network has subnets and no security_groups" in refused(fitted(), network=half)
    assert "'fit': cluster.network has security_groups and no subnets" in refused(
        fitted(Cluster(network=Network(security_groups=("sg-1",))))
    )


def test_an_isolated_step_does_not_ask_the_registry() -> None:
    said = refused(loaded(registry="auto"), network=ISOLATED)
    assert "asks the model registry" in said
    assert "cluster=Cluster(network=Network(...))" in said
    where = Parameter.string("Registry", default="auto")
    assert "asks the model registry" in refused(loaded(registry=where), parameters=(where,), network=ISOLATED)
    own = loaded(Cluster(network=Network()), registry="auto")
    Pipeline(name="p", steps=[own], deployment=Deployment(targets={"sagemaker": {"network": ISOLATED}}))


def test_an_isolated_step_has_no_remote_debugging_and_no_mlflow() -> None:
    assert "Systems Manager" in refused(fitted(remote_debug=True), network=ISOLATED)
    assert "MLflow" in refused(fitted(Cluster(network=ISOLATED), mlflow=Mlflow(arn=SERVER)))
    Pipeline(
        name="p",
        steps=[fitted()],
        deployment=Deployment(targets={"sagemaker": {"network": ISOLATED, "mlflow": Mlflow(arn=SERVER)}}),
    )


def test_a_role_is_given_to_a_step_that_has_a_job() -> None:
    role = "arn:aws:iam::111122223333:role/fit"
    said = refused(fitted(), roles=Roles(steps={"fits": role}))
    assert "deployment.targets.sagemaker.roles.steps names 'fits', which is no step with a job. Did you mean" in said
    Pipeline(
        name="p",
        steps=[fitted()],
        deployment=Deployment(targets={"sagemaker": {"roles": Roles(steps={fitted().name: role})}}),
    )


def test_a_run_of_mlflow_is_of_one_job_and_needs_a_server() -> None:
    assert "one run for every execution" in refused(fitted(), mlflow=Mlflow(arn=SERVER, run="night"))
    assert "deployment.targets.sagemaker.mlflow has no arn" in refused(fitted(), mlflow=Mlflow(experiment="digits"))
    assert "options.mlflow has no arn" in refused(fitted(mlflow=Mlflow(run="night")))


def test_a_key_of_volumes_needs_machines_that_are_alike() -> None:
    keys = Keys(volume="alias/key")
    mixed = Cluster(instance_type="ml.m5.xlarge", alternatives=(Alternative(instance_type="ml.g5.xlarge"),))
    assert "of its machines ml.g5.xlarge have disks of their own" in refused(fitted(mixed), keys=keys)
    kind = Parameter.string("Kind", default="ml.m5.xlarge")
    unknown = fitted(Cluster(instance_type=kind.ref()))
    assert "a parameter without choices" in refused(unknown, keys=keys, parameters=(kind,))
    either = Parameter.string("Kind", default="ml.m5.xlarge", choices=("ml.m5.xlarge", "ml.g5.xlarge"))
    assert "of its machines ml.g5.xlarge" in refused(unknown, keys=keys, parameters=(either,))
    alike = Parameter.string("Kind", default="ml.m5.xlarge", choices=("ml.m5.xlarge", "ml.m5.large"))
    Pipeline(
        name="p", steps=[unknown], parameters=[alike], deployment=Deployment(targets={"sagemaker": {"keys": keys}})
    )


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Cluster(groups=(READERS, READERS)), "two groups of hosts have the name 'readers'"),
        (Cluster(groups=(READERS.model_copy(update={"name": "main"}),)), "two groups of hosts have the name 'main'"),
        (Cluster(groups=(READERS,), warm_pool_seconds=600), "no warm pools for heterogeneous clusters"),
        (Cluster(groups=(READERS,), alternatives=(Alternative(instance_type="ml.m5.large"),)), "exclude each other"),
        (
            Cluster(groups=tuple(READERS.model_copy(update={"name": f"g{n}"}) for n in range(5))),
            f"6 groups of hosts with 'main'; at most {quotas.MAX_INSTANCE_GROUPS}",
        ),
    ],
)
def test_groups_of_hosts(cluster: Cluster, why: str) -> None:
    assert why in refused(fitted(cluster))


def test_groups_of_hosts_are_for_training_programs_that_look_at_their_group() -> None:
    assert "for training jobs" in refused(loaded(Cluster(groups=(READERS,))))
    same = step(train, train="s3://b/train/", recipe="digits_cnn", cluster=Cluster(groups=(READERS,)))
    assert "train does the same on every host" in refused(same)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"alternatives": (Alternative(instance_type="ml.m5.xlarge"),)}, "ml.m5.xlarge stands twice"),
        (
            {"alternatives": tuple(Alternative(instance_type=f"ml.m5.{n}xlarge") for n in (2, 4, 8, 12, 16))},
            f"names 6 instance types with its alternatives; at most {quotas.MAX_INSTANCE_PREFERENCES}",
        ),
        (
            {"alternatives": (Alternative(instance_type="ml.m5.large"),), "spot": Spot(max_wait_seconds=90_000)},
            "on demand only",
        ),
    ],
)
def test_alternatives(more: dict[str, Any], why: str) -> None:
    one = fitted(Cluster(**more))
    if "spot" in more:  # a component without checkpoints is refused for that first
        one = step(train, train="s3://b/train/", recipe="digits_cnn", cluster=Cluster(**more))
    assert why in refused(one)


def test_alternatives_are_written_when_the_pipeline_is_compiled() -> None:
    hosts = Parameter.integer("Hosts", default=1)
    cluster = Cluster(count=hosts.ref(), alternatives=(Alternative(instance_type="ml.m5.large"),))
    assert "cannot be parameters" in refused(fitted(cluster), parameters=(hosts,))


def test_adapters() -> None:
    assert "for training jobs" in refused(loaded(Cluster(efa=True, count=2)))
    assert "joins hosts, and there is one" in refused(fitted(Cluster(instance_type="ml.p4d.24xlarge", efa=True)))
    alone = Cluster(instance_type="ml.p4d.24xlarge", efa=True, groups=(READERS,))
    assert "joins the hosts of the group 'main', and that has one; the further groups do not" in refused(fitted(alone))
    said = refused(fitted(Cluster(instance_type="ml.g5.xlarge", count=2, efa=True)))
    assert "ml.g5.xlarge has no Elastic Fabric Adapter. Did you mean 'ml.g5." in said
    other = (Alternative(instance_type="ml.g5.xlarge"),)
    said = refused(fitted(Cluster(instance_type="ml.p4d.24xlarge", count=2, efa=True, alternatives=other)))
    assert "ml.g5.xlarge has no Elastic Fabric Adapter" in said
    beside = Cluster(instance_type="ml.p4d.24xlarge", count=2, efa=True, groups=(READERS,))
    Pipeline(name="p", steps=[fitted(beside)])  # of hosts that only read none is asked


def test_waiting_for_machines_needs_accelerators() -> None:
    assert "no effect on machines without accelerators (ml.m5.xlarge)" in refused(fitted(max_pending_seconds=7200))
    Pipeline(name="p", steps=[fitted(Cluster(instance_type="ml.g5.xlarge"), max_pending_seconds=7200)])


def test_pipe_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(ValueError, match="FastFile streams as well"):
        TrainingOptions(input_mode="Pipe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="FastFile streams as well"):
        TrainingOptions(input_modes={"data": "Pipe"})  # type: ignore[dict-item]


def test_input_modes_need_an_existing_input() -> None:
    assert "Did you mean 'data'?" in refused(fitted(input_modes={"date": "FastFile"}))
    system = "fsx://fs-0123456789abcdef0/mnt"
    assert "has no input mode" in refused(fitted(data=system, input_modes={"data": "File"}), network=VPC)


@pytest.mark.parametrize(
    "uri",
    [
        "fsx://data",
        "fsx://fs-0123456789abcdef0",
        "efs://fs-01234567/a/../b",
        "efs://fs-01234567/a?access=w",
        "fsx://fs-XY/a",
    ],
)
def test_malformed_file_systems_are_refused(uri: str) -> None:
    said = refused(fitted(data=uri), network=VPC)
    assert repr(uri) in said
    assert "Allowed: fsx://fs-" in said


def test_a_file_system_is_reached_from_its_vpc_by_training_jobs() -> None:
    system = "efs://fs-01234567/data"
    assert "only reached from its VPC" in refused(fitted(data=system))
    assert "only training jobs mount" in refused(loaded(raw=system), network=VPC)


def test_file_system_uris_are_parsed() -> None:
    assert file_system("efs://fs-01234567/") == FileSystem("EFS", "fs-01234567", "/", "ro")
    assert file_system("fsx://fs-0123456789abcdef0/m/a b?access=rw") == FileSystem(
        "FSxLustre", "fs-0123456789abcdef0", "/m/a b", "rw"
    )
    assert file_system("s3://bucket/key") is None
