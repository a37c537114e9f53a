"""The tables of the words: keyword, place in the step's JSON, spelling, default.

They follow CreateProcessingJob, CreateTrainingJob, CreateHyperParameterTuningJob, CreateModel, CreateTransformJob and
CreateModelPackage. The defaults are those that the SageMaker Python SDK writes.
"""

from __future__ import annotations

from drivetrain.native.retries import RETRIES
from drivetrain.native.table import (
    CACHE,
    COUNT,
    FLAG,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXT_OF_NAME,
    TEXTS,
    Row,
    Spelling,
    Table,
    entry,
    fields,
    named,
)

AT = Table(
    "At",
    (
        Row("uri", "S3Input.S3Uri", TEXT),
        Row("path", "S3Input.LocalPath", TEXT),
        Row("mode", "S3Input.S3InputMode", TEXT, "File"),
        Row("data_type", "S3Input.S3DataType", TEXT, "S3Prefix"),
        Row("distribution", "S3Input.S3DataDistributionType", TEXT, "FullyReplicated"),
        Row("compression", "S3Input.S3CompressionType", TEXT, "None"),
        Row("managed", "AppManaged", FLAG, False),
    ),
    positional=2,
    order="managed uri path data_type mode distribution compression",
)
TO = Table(
    "To",
    (
        Row("uri", "S3Output.S3Uri", TEXT),
        Row("path", "S3Output.LocalPath", TEXT),
        Row("upload", "S3Output.S3UploadMode", TEXT, "EndOfJob"),
        Row("managed", "AppManaged", FLAG, False),
    ),
    positional=2,
    order="managed uri path upload",
)
CHANNEL = Table(
    "Channel",
    (
        Row("uri", "DataSource.S3DataSource.S3Uri", TEXT),
        Row("content_type", "ContentType", TEXT),
        Row("data_type", "DataSource.S3DataSource.S3DataType", TEXT, "S3Prefix"),
        Row("distribution", "DataSource.S3DataSource.S3DataDistributionType", TEXT, "FullyReplicated"),
        Row("mode", "InputMode", TEXT),
        Row("compression", "CompressionType", TEXT),
        Row("wrapper", "RecordWrapperType", TEXT),
    ),
    positional=1,
    order="data_type uri distribution content_type",
)
CONTAINER = Table(
    "Container",
    (
        Row("image", "Image", TEXT),
        Row("data", "ModelDataUrl", TEXT),
        Row("environment", "Environment", TEXT_OF_NAME),
        Row("package", "ModelPackageName", TEXT),
        Row("framework", "Framework", TEXT),
        Row("framework_version", "FrameworkVersion", TEXT),
    ),
    order="image environment data",
)

_CONTAINER = entry(CONTAINER)
_CONTAINERS = Spelling(
    "a list of Container(...)",
    lambda given: [_CONTAINER.write(each) for each in OBJECTS.write(given)],
    lambda json: [_CONTAINER.read(each) for each in OBJECTS.read(json)],
)
_CLUSTER = (
    Row("machine", "InstanceType", TEXT),
    Row("count", "InstanceCount", COUNT, 1),
    Row("volume", "VolumeSizeInGB", COUNT, 30),
    Row("volume_key", "VolumeKmsKeyId", TEXT),
)
_RETRY = Row("retry", "RetryPolicies", RETRIES)
OUTPUTS = named("OutputName", fields("OutputType"))


def _job(*rows: Row) -> tuple[Row, ...]:
    """The rows of a word, with those that every job has."""
    tags = Row("tags", "Arguments.Tags", named("Key", fields("Value")))
    return (*rows, tags, Row("cache", "CacheConfig", CACHE), _RETRY)


def _at(parent: str, *rows: Row) -> tuple[Row, ...]:
    """The rows, below a field of the arguments."""
    place = f"Arguments.{parent}." if parent else "Arguments."
    return tuple(row._replace(path=place + row.path) for row in rows)


PROCESSING = Table(
    "processing",
    _job(
        *_at("AppSpecification", Row("image", "ImageUri", TEXT), Row("command", "ContainerEntrypoint", TEXTS)),
        *_at("AppSpecification", Row("arguments", "ContainerArguments", TEXTS)),
        *_at("ProcessingResources.ClusterConfig", *_CLUSTER),
        *_at(
            "",
            Row("role", "RoleArn", TEXT),
            Row("inputs", "ProcessingInputs", named("InputName", entry(AT))),
            Row("outputs", "ProcessingOutputConfig.Outputs", named("OutputName", entry(TO))),
            Row("output_key", "ProcessingOutputConfig.KmsKeyId", TEXT),
            Row("environment", "Environment", TEXT_OF_NAME),
            Row("max_seconds", "StoppingCondition.MaxRuntimeInSeconds", COUNT),
            Row("network", "NetworkConfig", OBJECT),
            Row("experiment", "ExperimentConfig", OBJECT),
        ),
        Row("reports", "PropertyFiles", named("PropertyFileName", fields("OutputName", "FilePath"))),
    ),
    type="Processing",
    order="machine count volume image arguments command role inputs outputs",
)


def _trained(place: str, hyperparameters: str) -> tuple[Row, ...]:
    """The rows of a training, which stands at a place of the arguments."""
    return (
        *_at(
            f"{place}AlgorithmSpecification",
            Row("image", "TrainingImage", TEXT),
            Row("command", "ContainerEntrypoint", TEXTS),
            Row("arguments", "ContainerArguments", TEXTS),
            Row("mode", "TrainingInputMode", TEXT, "File"),
            Row("metrics", "MetricDefinitions", named("Name", fields("Regex"))),
        ),
        *_at(f"{place}ResourceConfig", *_CLUSTER),
        *_at(
            place.rstrip("."),
            Row("role", "RoleArn", TEXT),
            Row("channels", "InputDataConfig", named("ChannelName", entry(CHANNEL, bare=True), last=True)),
            Row("output", "OutputDataConfig.S3OutputPath", TEXT),
            Row("output_key", "OutputDataConfig.KmsKeyId", TEXT),
            Row("hyperparameters", hyperparameters, TEXT_OF_NAME),
            Row("environment", "Environment", TEXT_OF_NAME),
            Row("max_seconds", "StoppingCondition.MaxRuntimeInSeconds", COUNT, 86400),
            Row("max_wait_seconds", "StoppingCondition.MaxWaitTimeInSeconds", COUNT),
            Row("spot", "EnableManagedSpotTraining", FLAG),
            Row("checkpoints", "CheckpointConfig", OBJECT),
            Row("network", "VpcConfig", OBJECT),
        ),
    )


_RANGE = named("Name", fields("MinValue", "MaxValue", "ScalingType"))
TRAINING = Table(
    "training",
    _job(*_trained("", "HyperParameters"), Row("experiment", "Arguments.ExperimentConfig", OBJECT)),
    type="Training",
    order="mode image output output_key max_seconds max_wait_seconds count machine volume role channels "
    "hyperparameters",
    outputs={"model": "ModelArtifacts.S3ModelArtifacts"},
)
TUNING = Table(
    "tuning",
    _job(
        *_at(
            "HyperParameterTuningJobConfig",
            Row("objective", "HyperParameterTuningJobObjective", fields("MetricName", "Type", last="MetricName")),
            Row("continuous", "ParameterRanges.ContinuousParameterRanges", _RANGE),
            Row("integer", "ParameterRanges.IntegerParameterRanges", _RANGE),
            Row("categorical", "ParameterRanges.CategoricalParameterRanges", named("Name", fields("Values", of=TEXTS))),
            Row("strategy", "Strategy", TEXT, "Bayesian"),
            Row("max_jobs", "ResourceLimits.MaxNumberOfTrainingJobs", COUNT),
            Row("max_parallel", "ResourceLimits.MaxParallelTrainingJobs", COUNT),
            Row("early_stopping", "TrainingJobEarlyStoppingType", TEXT, "Off"),
        ),
        *_trained("TrainingJobDefinition.", "StaticHyperParameters"),
    ),
    type="Tuning",
    order="strategy max_jobs max_parallel early_stopping objective continuous categorical integer hyperparameters role "
    "output output_key count machine volume max_seconds max_wait_seconds mode image channels",
)
MODEL = Table(
    "model",
    (
        *_at(
            "",
            Row("image", "PrimaryContainer.Image", TEXT),
            Row("data", "PrimaryContainer.ModelDataUrl", TEXT),
            Row("environment", "PrimaryContainer.Environment", TEXT_OF_NAME),
            Row("containers", "Containers", _CONTAINERS),
            Row("role", "ExecutionRoleArn", TEXT),
            Row("network", "VpcConfig", OBJECT),
        ),
        _RETRY,
    ),
    type="Model",
    order="role image environment data",
    outputs={"name": "ModelName"},
)
TRANSFORM = Table(
    "transform",
    _job(
        *_at(
            "",
            Row("model", "ModelName", TEXT),
            Row("data", "TransformInput.DataSource.S3DataSource.S3Uri", TEXT),
            Row("data_type", "TransformInput.DataSource.S3DataSource.S3DataType", TEXT, "S3Prefix"),
            Row("content_type", "TransformInput.ContentType", TEXT),
            Row("split", "TransformInput.SplitType", TEXT),
            Row("compression", "TransformInput.CompressionType", TEXT),
            Row("output", "TransformOutput.S3OutputPath", TEXT),
            Row("accept", "TransformOutput.Accept", TEXT),
            Row("assemble", "TransformOutput.AssembleWith", TEXT),
            Row("output_key", "TransformOutput.KmsKeyId", TEXT),
            Row("machine", "TransformResources.InstanceType", TEXT),
            Row("count", "TransformResources.InstanceCount", COUNT, 1),
            Row("batch", "BatchStrategy", TEXT),
            Row("max_concurrent", "MaxConcurrentTransforms", COUNT),
            Row("max_payload_mb", "MaxPayloadInMB", COUNT),
            Row("environment", "Environment", TEXT_OF_NAME),
            Row("columns", "DataProcessing", OBJECT),
        )
    ),
    type="Transform",
    order="model data_type data content_type compression split output accept assemble output_key count machine",
    outputs={"output": "TransformOutput.S3OutputPath"},
)
MODEL_VERSION = Table(
    "model_version",
    (
        *_at(
            "",
            Row("group", "ModelPackageGroupName", TEXT),
            Row("containers", "InferenceSpecification.Containers", _CONTAINERS),
            Row("content_types", "InferenceSpecification.SupportedContentTypes", TEXTS),
            Row("response_types", "InferenceSpecification.SupportedResponseMIMETypes", TEXTS),
            Row("serving_machines", "InferenceSpecification.SupportedRealtimeInferenceInstanceTypes", TEXTS),
            Row("transform_machines", "InferenceSpecification.SupportedTransformInstanceTypes", TEXTS),
            Row("approval", "ModelApprovalStatus", TEXT),
            Row("quality", "ModelMetrics.ModelQuality.Statistics", fields("ContentType", "S3Uri")),
            Row("metadata", "CustomerMetadataProperties", TEXT_OF_NAME),
        ),
        _RETRY,
    ),
    type="RegisterModel",
    order="group quality",
    outputs={"version": "ModelPackageArn"},
)
CALLBACK = Table(
    "callback",
    (
        Row("queue", "SqsQueueUrl", TEXT),
        Row("arguments", "Arguments", OBJECT),
        Row("outputs", "OutputParameters", OUTPUTS),
        _RETRY,
    ),
    type="Callback",
)

FUNCTION = Table(
    "function",
    (
        Row("arn", "FunctionArn", TEXT),
        Row("payload", "Arguments", OBJECT),
        Row("outputs", "OutputParameters", OUTPUTS),
        Row("cache", "CacheConfig", CACHE),
        _RETRY,
    ),
    type="Lambda",
)

_WORDS = (PROCESSING, TRAINING, TUNING, MODEL, TRANSFORM, MODEL_VERSION, CALLBACK, FUNCTION)
TABLES = {table.type: table for table in _WORDS}
ENTRIES = (AT, TO, CHANNEL, CONTAINER)
