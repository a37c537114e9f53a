"""SageMaker Debugger's own rules that mean what health rules of ours mean, and the image that evaluates them.

https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html
https://github.com/awslabs/sagemaker-debugger-rulesconfig (names of rules, their collections and parameters)
https://github.com/aws/sagemaker-python-sdk (image_uri_config/debugger.json: accounts of the image)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ServiceRule:
    """A rule of the service's.

    Attributes:
        name: what it is invoked by.
        collections: what the hook must save for it: a collection with a pattern of its tensors, "" for one that smdebug
            knows. A rule without is one of the Profiler's, which looks at the machines.
        parameters: what makes it mean the same as ours.
    """

    name: str
    collections: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""
    """The difference between what it sees and what ours sees, for people."""

    @property
    def of_machines(self) -> bool:
        return not self.collections


SERVICE_RULES: dict[str, ServiceRule] = {
    "class_imbalance": ServiceRule(
        "ClassImbalance", {"labels": ".*label.*"}, note="the script must save its labels and predictions"
    ),
    "dead_activations": ServiceRule("DeadRelu", {"relu_output": ".*relu_output"}, note="ReLU alone"),
    "exploding_gradients": ServiceRule(
        "ExplodingTensor", {"gradients": ""}, {"collection_names": "gradients"}, "only where they are infinite or NaN"
    ),
    "idle_accelerator": ServiceRule("LowGPUUtilization"),
    "loss_not_decreasing": ServiceRule("LossNotDecreasing", {"losses": ""}),
    "memory_growth": ServiceRule("GPUMemoryIncrease", note="the GPU's memory; ours looks at the process's"),
    "nan_or_inf": ServiceRule(
        "ExplodingTensor", {"losses": "", "gradients": ""}, {"collection_names": "losses,gradients"}
    ),
    "overfitting": ServiceRule("Overfit", {"losses": ""}),
    "overtraining": ServiceRule("Overtraining", {"losses": ""}),
    "poor_initialisation": ServiceRule("PoorWeightInitialization", {"relu_input": ".*relu_input"}),
    "saturated_updates": ServiceRule("WeightUpdateRatio", {"weights": ""}),
    "slow_input": ServiceRule("IOBottleneck", note="waiting for disks, beside an idle GPU"),
    "straggler_rank": ServiceRule("LoadBalancing", note="GPUs that are used unequally"),
    "unchanging_tensors": ServiceRule("UnchangedTensor", {"weights": ""}, {"collection_names": "weights"}),
    "vanishing_gradients": ServiceRule("VanishingGradient", {"gradients": ""}),
}
OURS_ALONE = ("checkpoint_stalls", "communication_share", "learning_rate")
"""Health rules for which the service has none."""

_ACCOUNTS = {
    "af-south-1": "314341159256",
    "ap-east-1": "199566480951",
    "ap-northeast-1": "430734990657",
    "ap-northeast-2": "578805364391",
    "ap-northeast-3": "364406365360",
    "ap-south-1": "904829902805",
    "ap-southeast-1": "972752614525",
    "ap-southeast-2": "184798709955",
    "ca-central-1": "519511493484",
    "cn-north-1": "618459771430",
    "cn-northwest-1": "658757709296",
    "eu-central-1": "482524230118",
    "eu-north-1": "314864569078",
    "eu-south-1": "563282790590",
    "eu-west-1": "929884845733",
    "eu-west-2": "250201462417",
    "eu-west-3": "447278800020",
    "me-south-1": "986000313247",
    "sa-east-1": "818342061345",
    "us-east-1": "503895931360",
    "us-east-2": "915447279597",
    "us-gov-west-1": "515509971035",
    "us-west-1": "685455198987",
    "us-west-2": "895741380848",
}


def rules_image(region: str) -> str | None:
    """The image that evaluates the service's rules; None where no account is documented for the region."""
    account = _ACCOUNTS.get(region)
    if account is None:
        return None
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{suffix}/sagemaker-debugger-rules:latest"
