"""What the options of a job become; the compiler holds every one against the service's own shapes."""

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
from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.compile.job_options import EFA_VARIABLES
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.targets.sagemaker.settings import settings_of

FRESH = {"DRIVETRAIN_FRESH": {"Get": "Parameters.Fresh"}}
SERVER = "arn:aws:sagemaker:eu-west-1:111122223333:mlflow-tracking-server/runs"
VPC = Network(subnets=("subnet-0a1b", "subnet-2c3d"), security_groups=("sg-0e1f",))


@component
def load(raw: Input, data: Output) -> None:
    """Load."""


@component(job="training")
def fit(data: Input, model: Output, checkpoints: Checkpoints, more: Input | None = None, rate: float = 0.1) -> None:
    """Fit."""


def definition(*steps: Any, **deployment: Any) -> dict[str, Any]:
    pipeline = Pipeline(name="p", steps=list(steps), deployment=Deployment(targets={"sagemaker": deployment}))
    again = Pipeline.model_validate_json(pipeline.model_dump_json())
    assert again == pipeline, "the spec comes back from JSON as it was"
    return dict(compile_pipeline(pipeline).definition)


def arguments(one: Any, **deployment: Any) -> dict[str, Any]:
    return definition(one, **deployment)["Steps"][-1]["Arguments"]


def fitted(cluster: Cluster | None = None, **options: Any) -> Any:
    chosen = TrainingOptions(**options) if options else None
    return step(fit, data="s3://b/data/", cluster=cluster or Cluster(), options=chosen)


def test_without_any_option_a_job_says_nothing_of_them() -> None:
    plain = arguments(fitted())
    assert not {"VpcConfig", "EnableNetworkIsolation", "RetryStrategy", "RemoteDebugConfig", "MlflowConfig"} & set(
        plain
    )
    assert plain == arguments(fitted(input_mode="File"))
    assert plain["ResourceConfig"] == {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
    assert "MlflowConfig" not in definition(fitted())


def test_the_network_of_the_deployment_is_that_of_every_job() -> None:
    network = VPC.model_copy(update={"isolated": True, "encrypt_traffic": True})
    loaded = step(load, raw="s3://b/raw/")
    processing, training = definition(loaded, step(fit, data=loaded["data"]), network=network)["Steps"]
    said = {
        "VpcConfig": {"SecurityGroupIds": ["sg-0e1f"], "Subnets": ["subnet-0a1b", "subnet-2c3d"]},
        "EnableNetworkIsolation": True,
        "EnableInterContainerTrafficEncryption": True,
    }
    assert processing["Arguments"]["NetworkConfig"] == said
    assert {name: training["Arguments"][name] for name in said} == said


def test_a_steps_own_network_stands_for_that_of_the_deployment() -> None:
    open_one = arguments(fitted(Cluster(network=Network())), network=VPC)
    assert "VpcConfig" not in open_one
    own = arguments(fitted(Cluster(network=VPC)))
    assert own["VpcConfig"]["Subnets"] == ["subnet-0a1b", "subnet-2c3d"]


def test_keys_encrypt_volumes_and_outputs() -> None:
    keys = Keys(volume="alias/volumes", output="arn:aws:kms:eu-west-1:111122223333:key/1234abcd")
    loaded = step(load, raw="s3://b/raw/")
    processing, training = definition(loaded, step(fit, data=loaded["data"]), keys=keys)["Steps"]
    assert processing["Arguments"]["ProcessingResources"]["ClusterConfig"]["VolumeKmsKeyId"] == "alias/volumes"
    assert processing["Arguments"]["ProcessingOutputConfig"]["KmsKeyId"] == keys.output
    assert training["Arguments"]["ResourceConfig"]["VolumeKmsKeyId"] == "alias/volumes"
    assert training["Arguments"]["OutputDataConfig"]["KmsKeyId"] == keys.output


def test_machines_with_disks_of_their_own_get_no_key() -> None:
    """The service refuses VolumeKmsKeyId for them; their hardware encrypts."""
    keys = Keys(volume="alias/volumes")
    assert "VolumeKmsKeyId" not in arguments(fitted(Cluster(instance_type="ml.g5.xlarge")), keys=keys)["ResourceConfig"]


def test_a_heterogeneous_cluster() -> None:
    groups = (InstanceGroup(name="readers", instance_type="ml.c5.2xlarge", count=2),)
    resources = arguments(fitted(Cluster(instance_type="ml.g5.xlarge", count=4, groups=groups, volume_gb=50)))
    assert resources["ResourceConfig"] == {
        "InstanceGroups": [
            {"InstanceGroupName": "main", "InstanceType": "ml.g5.xlarge", "InstanceCount": 4},
            {"InstanceGroupName": "readers", "InstanceType": "ml.c5.2xlarge", "InstanceCount": 2},
        ],
        "VolumeSizeInGB": 50,
    }


@pytest.mark.parametrize("kind", ["training", "processing"])
def test_alternatives_with_one_count_and_with_their_own(kind: str) -> None:
    def resources(cluster: Cluster) -> dict[str, Any]:
        if kind == "training":
            return arguments(fitted(cluster))["ResourceConfig"]
        return arguments(step(load, raw="s3://b/raw/", cluster=cluster))["ProcessingResources"]["ClusterConfig"]

    both = ("ml.g5.12xlarge", "ml.g5.16xlarge")
    assert resources(Cluster(instance_type=both[0], count=2, alternatives=(Alternative(instance_type=both[1]),))) == {
        "InstancePreferences": [{"InstanceType": both[0]}, {"InstanceType": both[1]}],
        "InstanceCount": 2,
        "VolumeSizeInGB": 30,
    }
    own = (Alternative(instance_type=both[1], count=8),)
    assert resources(Cluster(instance_type=both[0], count=2, alternatives=own)) == {
        "InstancePreferences": [
            {"InstanceType": both[0], "InstanceCount": 2},
            {"InstanceType": both[1], "InstanceCount": 8},
        ],
        "VolumeSizeInGB": 30,
    }


def test_adapters_are_taken_or_the_job_fails() -> None:
    cluster = Cluster(instance_type="ml.p4d.24xlarge", count=2, efa=True)
    assert arguments(fitted(cluster))["Environment"] == {**FRESH, **EFA_VARIABLES}
    one = step(fit, data="s3://b/data/", cluster=cluster, environment={"FI_EFA_USE_DEVICE_RDMA": "0"})
    assert arguments(one)["Environment"]["FI_EFA_USE_DEVICE_RDMA"] == "0", "the author's own value stands"


def test_input_modes_of_channels_but_never_of_the_code() -> None:
    one = step(
        fit,
        data="s3://b/data/",
        more="s3://b/more/",
        options=TrainingOptions(input_mode="FastFile", input_modes={"more": "File"}),
    )
    modes = {each["ChannelName"]: each["InputMode"] for each in arguments(one)["InputDataConfig"]}
    assert modes == {"data": "FastFile", "more": "File", "code": "File"}


def test_data_on_a_file_system_is_mounted() -> None:
    one = step(fit, data="fsx://fs-0123456789abcdef0/mnt1/digits", more="efs://fs-01234567/more?access=rw")
    data, more, code = arguments(one, network=VPC)["InputDataConfig"]
    assert data == {
        "ChannelName": "data",
        "DataSource": {
            "FileSystemDataSource": {
                "FileSystemId": "fs-0123456789abcdef0",
                "FileSystemType": "FSxLustre",
                "FileSystemAccessMode": "ro",
                "DirectoryPath": "/mnt1/digits",
            }
        },
    }
    system = more["DataSource"]["FileSystemDataSource"]
    assert (system["FileSystemType"], system["FileSystemAccessMode"], system["DirectoryPath"]) == ("EFS", "rw", "/more")
    assert "S3DataSource" in code["DataSource"]


def test_waiting_retries_debugging_and_tensorboard() -> None:
    said = arguments(
        fitted(
            Cluster(instance_type="ml.g5.xlarge"),
            max_pending_seconds=7_200,
            job_retries=3,
            remote_debug=True,
            tensorboard=True,
        ),
        bucket="own-bucket",
    )
    assert said["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400, "MaxPendingTimeInSeconds": 7_200}
    assert said["RetryStrategy"] == {"MaximumRetryAttempts": 3}
    assert said["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    place = said["TensorBoardOutputConfig"]["S3OutputPath"]["Std:Join"]["Values"]
    assert place == ["s3://own-bucket/pipelines/p/steps/fit", {"Get": "Execution.PipelineExecutionId"}, "tensorboard"]
    assert place[:-1] == said["OutputDataConfig"]["S3OutputPath"]["Std:Join"]["Values"]


def test_mlflow_of_all_jobs_and_of_one() -> None:
    built = definition(fitted(mlflow=Mlflow(arn=SERVER, run="night")), mlflow=Mlflow(arn=SERVER, experiment="digits"))
    assert built["MlflowConfig"] == {"MlflowResourceArn": SERVER, "MlflowExperimentName": "digits"}
    assert built["Steps"][0]["Arguments"]["MlflowConfig"] == {"MlflowResourceArn": SERVER, "MlflowRunName": "night"}


def test_the_experiment_has_the_pipelines_name_or_its_own() -> None:
    assert definition(fitted())["PipelineExperimentConfig"]["ExperimentName"] == {"Get": "Execution.PipelineName"}
    assert definition(fitted(), experiment="digits")["PipelineExperimentConfig"]["ExperimentName"] == "digits"


def test_settings_reach_the_options_of_the_deployment() -> None:
    from drivetrain.authoring.settings import Settings, build

    given = [
        "deployment.targets.sagemaker.network.subnets=[subnet-1]",
        "deployment.targets.sagemaker.network.security_groups=[sg-1]",
    ]
    settings = build(Settings, overrides=[*given, f"deployment.targets.sagemaker.mlflow.arn={SERVER}"], environment={})
    block = settings_of(settings.deployment)
    assert block.network is not None and block.network.subnets == ("subnet-1",)
    assert block.mlflow is not None and block.mlflow.arn == SERVER


def test_the_types_with_disks_of_their_own_are_types_of_the_service() -> None:
    """A family that is misspelt would never be asked for."""
    from drivetrain.catalog.instances import has_own_disk

    known: list[str] = service()["shapes"]["TrainingInstanceType"]["enum"]
    families = {name.split(".")[1] for name in known if has_own_disk(name)}
    assert {"g4dn", "g5", "p4d", "p5", "r5d", "trn1"} <= families
    assert not families & {"m5", "c5", "r5", "m6i", "c5n", "p3", "t3", "m7i"}


def test_options_are_for_training_jobs() -> None:
    with pytest.raises(SpecError, match="processing job: options="):
        step(load, raw="s3://b/raw/", options=TrainingOptions(tensorboard=True))


def test_a_count_that_is_a_parameter_stays_one_beside_spot() -> None:
    hosts = Parameter.integer("Hosts", default=2)
    cluster = Cluster(count=hosts.ref(), spot=Spot(max_wait_seconds=90_000))
    pipeline = Pipeline(name="p", steps=[fitted(cluster)], parameters=[hosts])
    resources = compile_pipeline(pipeline).definition["Steps"][0]["Arguments"]["ResourceConfig"]
    assert resources["InstanceCount"] == {"Get": "Parameters.Hosts"}
