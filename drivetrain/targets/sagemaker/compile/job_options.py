"""The fields of a job's request that say on what it runs, in which network, how its data comes,
and how its step is cached and retried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import SOURCE_VERSION, CachePolicy, Cluster, Mlflow, file_system
from drivetrain.spec.steps import JobStep, NativeStep, TrainingStep
from drivetrain.spec.values import OutputRef, Value
from drivetrain.steps import FRESH_PARAMETER, FRESH_VARIABLE
from drivetrain.targets.sagemaker.compile import Constant, Generated, join, spell
from drivetrain.targets.sagemaker.document.step_types import step_type
from drivetrain.targets.sagemaker.option_rules import MAIN_GROUP, instance_types, network_of
from drivetrain.targets.sagemaker.settings import settings_of


def cache_fields(policy: CachePolicy) -> Json:
    if not policy.enabled:
        return {}
    config: Json = {"Enabled": True}
    if policy.expire_after:
        config["ExpireAfter"] = policy.expire_after
    return {"CacheConfig": config}


Json = dict[str, Any]

# libfabric then takes the adapters or fails; RDMA is off where the hardware has none.
# https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-efa.html
EFA_VARIABLES = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}


def machines(step: JobStep, graph: Graph) -> Json:
    """A job's ResourceConfig, or ClusterConfig, as far as they are alike: hosts and their volumes."""
    cluster = step.cluster
    machine = cluster.machine
    assert machine is not None, "check() lets no step without a machine pass"
    found: Json
    if cluster.groups:
        found = {
            "InstanceGroups": [
                {
                    "InstanceGroupName": MAIN_GROUP,
                    "InstanceType": spell(machine, graph),
                    "InstanceCount": spell(cluster.count, graph),
                },
                *(
                    {"InstanceGroupName": one.name, "InstanceType": one.instance_type, "InstanceCount": one.count}
                    for one in cluster.groups
                ),
            ]
        }
    elif cluster.alternatives:
        found = _preferences(cluster)
    else:
        found = {
            "InstanceType": spell(machine, graph),
            "InstanceCount": spell(cluster.count, graph),
        }
    found["VolumeSizeInGB"] = cluster.volume_gb
    key = settings_of(graph.pipeline.deployment).keys.volume
    if key is not None:
        from drivetrain.catalog.instances import has_own_disk

        # A rule has seen to it that all of them have disks of their own or none.
        if not any(map(has_own_disk, instance_types(step, graph) or ())):
            found["VolumeKmsKeyId"] = Generated(key)
    return found


def _preferences(cluster: Cluster) -> Json:
    """Types in their order; one count for all where they have the same: the service takes it in one place only."""
    ordered = [
        (cluster.machine, cluster.count),
        *((one.instance_type, one.count or cluster.count) for one in cluster.alternatives),
    ]
    if all(count == cluster.count for _, count in ordered):
        return {
            "InstancePreferences": [{"InstanceType": name} for name, _ in ordered],
            "InstanceCount": cluster.count,
        }
    return {"InstancePreferences": [{"InstanceType": name, "InstanceCount": count} for name, count in ordered]}


def network_fields(step: JobStep, graph: Graph) -> Json:
    """A processing job's NetworkConfig, whose fields are a training job's own."""
    network = network_of(step, graph)
    found: Json = {}
    if network.subnets:
        spelled = str if step.cluster.network else Generated
        found["VpcConfig"] = {
            "SecurityGroupIds": [*map(spelled, network.security_groups)],
            "Subnets": [*map(spelled, network.subnets)],
        }
    if network.isolated and step.program.target != SOURCE_VERSION:  # which could not look at anything
        found["EnableNetworkIsolation"] = True
    if network.encrypt_traffic:
        found["EnableInterContainerTrafficEncryption"] = True
    return found


def channel(name: str, uri: Value, mode: str, graph: Graph) -> Json:
    """A channel of a training job: what lies below a URI, or a folder of a file system."""
    system = file_system(uri) if isinstance(uri, str) else None
    if system is not None:
        mounted = {
            "FileSystemId": system.id,
            "FileSystemType": system.type,
            "FileSystemAccessMode": system.access,
            "DirectoryPath": system.path,
        }
        return {"ChannelName": name, "DataSource": {"FileSystemDataSource": mounted}}
    source = {
        "S3DataType": Constant("S3Prefix"),
        "S3Uri": input_uri(uri, graph),
        "S3DataDistributionType": Constant("FullyReplicated"),
    }
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": mode}


def training_options(step: TrainingStep, prefix: Sequence[Any]) -> Json:
    """The fields of what else the service does for a training job.

    Args:
        prefix: the parts of the URI below which the job writes.
    """
    options = step.options
    found: Json = {}
    if options.job_retries is not None:
        found["RetryStrategy"] = {"MaximumRetryAttempts": options.job_retries}
    if options.remote_debug:
        found["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    if options.tensorboard:
        # Without a LocalPath it is /opt/ml/output/tensorboard, which the start file tells the program.
        found["TensorBoardOutputConfig"] = {"S3OutputPath": join("/", *prefix, "tensorboard")}
    if options.mlflow is not None:
        found["MlflowConfig"] = mlflow_fields(options.mlflow)
    return found


def mlflow_fields(mlflow: Mlflow) -> Json:
    """MlflowConfig, of a definition or of a job."""
    given = {
        "MlflowResourceArn": mlflow.arn,
        "MlflowExperimentName": mlflow.experiment,
        "MlflowRunName": mlflow.run,
    }
    return {name: value for name, value in given.items() if value is not None}


def input_uri(value: Value, graph: Graph) -> Any:
    """Return the URI that a job reads. Inputs match by prefix: a final slash keeps `train` from bringing
    `train_labels` along."""
    spelled = spell(value, graph)
    if isinstance(value, OutputRef):
        siblings = graph.by_name[value.step].output_names()
        if any(name != value.output and name.startswith(value.output) for name in siblings):
            return join("/", spelled, "")
    return spelled


def native_with_fresh(step: NativeStep) -> NativeStep:
    """A step that is carried through and cached, with the value of a fresh start in the environment that its cache
    compares; of the other types none is compared."""
    cache = object_in(step.fields, "CacheConfig")
    if cache.get("Enabled") is not True or "Environment" not in (step_type(step.type).key or ()):
        return step
    arguments = object_in(step.fields, "Arguments")
    fresh = {FRESH_VARIABLE: {"Get": f"Parameters.{FRESH_PARAMETER}"}}
    told = {**arguments, "Environment": {**object_in(arguments, "Environment"), **fresh}}
    return step.model_copy(update={"fields": {**step.fields, "Arguments": told}})
