"""The step types and fields of definitions that are documented, so that a new one is entered in one place."""

from __future__ import annotations

import re

# What the SDK writes (sagemaker-mlops 1.27 and 1.30, and the v2 line before it).
TOP_LEVEL = frozenset(("Version", "Metadata", "Parameters", "PipelineExperimentConfig", "MlflowConfig", "Steps"))
EVERY_STEP = frozenset(
    ("Name", "Type", "Arguments", "DisplayName", "Description", "DependsOn", "CacheConfig", "RetryPolicies")
)
_CHECKS = frozenset(
    {
        "CheckType",
        "FailOnViolation",
        "ModelPackageGroupName",
        "PropertyFiles",
        "RegisterNewBaseline",
        "SkipCheck",
        "SuppliedBaselineConstraints",
        "SuppliedBaselineStatistics",
    }
)
_NOTHING: frozenset[str] = frozenset()
# Step type -> the fields that only it has.
STEP_TYPES: dict[str, frozenset[str]] = {
    "Athena": _NOTHING,
    "AutoML": _NOTHING,
    "Callback": frozenset(("SqsQueueUrl", "OutputParameters")),
    "ClarifyCheck": _CHECKS | {"ModelName"},
    "Cleanup": _NOTHING,
    "Condition": _NOTHING,
    "EMR": frozenset(("ClusterId", "ClusterConfig", "ExecutionRoleArn")),
    "EMRServerless": frozenset(("ApplicationId", "ApplicationConfig", "ExecutionRoleArn")),
    "Endpoint": _NOTHING,
    "EndpointConfig": _NOTHING,
    "Fail": _NOTHING,
    "ForEach": _NOTHING,
    "HubContent": _NOTHING,
    "InferenceComponent": _NOTHING,
    "Job": _NOTHING,
    "Lambda": frozenset(("FunctionArn", "OutputParameters")),
    "Lineage": _NOTHING,
    "Model": _NOTHING,
    "Processing": frozenset(("PropertyFiles",)),
    "QualityCheck": _CHECKS,
    "RegisterModel": _NOTHING,
    "Training": frozenset(("OutputParameters",)),
    "Transform": _NOTHING,
    "Tuning": _NOTHING,
}
# Step types whose Arguments are a request of the service's API, or of the pipeline's own making.
API_TYPES = frozenset(
    [
        "AutoML",
        "ClarifyCheck",
        "Condition",
        "Endpoint",
        "EndpointConfig",
        "Fail",
        "ForEach",
        "InferenceComponent",
        "Model",
        "Processing",
        "QualityCheck",
        "RegisterModel",
        "Training",
        "Transform",
        "Tuning",
    ]
)
# What a ForEach cannot hold, and how the steps are named that it makes of those that it holds: Child-0, Child-1, ...
NOT_IN_A_BODY = ("Condition", "Fail", "ForEach")
CHILD_NAME = re.compile(r"(.+)-\d+", re.DOTALL)
