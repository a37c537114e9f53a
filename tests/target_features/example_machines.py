"""What steps run on, and how they survive there."""

from __future__ import annotations

from typing import Any

from drivetrain.authoring import Pipeline, step
from drivetrain.components.train_script import train_script
from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.resources import (
    Alternative,
    CachePolicy,
    Checkpoint,
    Cluster,
    InstanceGroup,
    Network,
    Resources,
    RetryPolicy,
    Spot,
)
from drivetrain.spec.training_options import TrainingOptions
from tests.target_features.features import data, feature, of, training

GROUP = "Machines"
RELIABILITY = "Caching, retries, checkpoints"


def on(cluster: Cluster, **given: Any) -> Pipeline:
    """A training on these machines."""
    prepared = data()
    return of(prepared, training(prepared, cluster=cluster, **given))


@feature(GROUP, "a machine by its instance type")
def instance_type() -> Pipeline:
    return on(Cluster(instance_type="ml.g5.xlarge"))


@feature(GROUP, "an instance type that a parameter has")
def instance_type_by_parameter() -> Pipeline:
    kind = Parameter.string("Kind", default="ml.m5.xlarge")
    prepared = data()
    machines = Cluster(instance_type=kind.ref(), processes=1)
    return of(prepared, training(prepared, cluster=machines), parameters=[kind])


@feature(GROUP, "processors, memory and accelerators of a shared machine")
def resources() -> Pipeline:
    return on(Cluster(resources=Resources(cpu=2, memory_gib=4), processes=1))


@feature(GROUP, "a training on several hosts")
def several_hosts() -> Pipeline:
    return on(Cluster(count=2, processes=1))


@feature(GROUP, "a number of hosts that a parameter has")
def hosts_by_parameter() -> Pipeline:
    hosts = Parameter.integer("Hosts", default=2)
    prepared = data()
    return of(prepared, training(prepared, cluster=Cluster(count=hosts.ref(), processes=1)), parameters=[hosts])


@feature(GROUP, "spot machines")
def spot() -> Pipeline:
    return on(Cluster(spot=Spot(max_wait_seconds=172_800), processes=1))


@feature(GROUP, "hosts of several types in one training")
def host_groups() -> Pipeline:
    groups = (InstanceGroup(name="readers", instance_type="ml.m5.large"),)
    cluster = Cluster(groups=groups)
    return of(step(train_script, train="example:digits", source="example:digits", script="train.py", cluster=cluster))


@feature(GROUP, "other instance types where there is no capacity")
def alternatives() -> Pipeline:
    return on(Cluster(alternatives=(Alternative(instance_type="ml.m5.2xlarge"),), processes=1))


@feature(GROUP, "machines kept warm for the next training")
def warm_pool() -> Pipeline:
    return on(Cluster(warm_pool_seconds=600, processes=1))


@feature(GROUP, "Elastic Fabric Adapters")
def fabric_adapters() -> Pipeline:
    return on(Cluster(instance_type="ml.p4d.24xlarge", count=2, efa=True))


@feature(GROUP, "subnets and security groups of a step")
def step_network() -> Pipeline:
    return on(Cluster(network=Network(subnets=("subnet-0a",), security_groups=("sg-0a",)), processes=1))


@feature(GROUP, "a limit on a step's time")
def time_limit() -> Pipeline:
    return on(Cluster(max_run_seconds=3_600, processes=1))


@feature(GROUP, "a container image of one's own")
def own_image() -> Pipeline:
    return of(data(image="111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1"))


@feature(GROUP, "variables of a step's program")
def variables() -> Pipeline:
    return of(data(environment={"LEVEL": "debug"}))


@feature(GROUP, "options of the service's training jobs")
def job_options() -> Pipeline:
    return on(Cluster(processes=1), options=TrainingOptions(tensorboard=True))


@feature(RELIABILITY, "results of earlier runs stand in")
def caching() -> Pipeline:
    return of(data(cache=CachePolicy()))


@feature(RELIABILITY, "results that get too old")
def cache_age() -> Pipeline:
    return of(data(cache=CachePolicy(expire_after="P30D")))


@feature(RELIABILITY, "retries")
def retries() -> Pipeline:
    return of(data(retry=[RetryPolicy(causes=("service_error",))]))


@feature(RELIABILITY, "checkpoints in the pipeline's own place")
def checkpoints() -> Pipeline:
    return on(Cluster(processes=1))


@feature(RELIABILITY, "checkpoints at a URI that a parameter has")
def checkpoints_by_parameter() -> Pipeline:
    place = Parameter.string("Place", default="s3://bucket/checkpoints")
    prepared = data()
    return of(prepared, training(prepared, checkpoint=Checkpoint(uri=place.ref())), parameters=[place])
