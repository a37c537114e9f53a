"""Training steps that the SageMaker SDK makes of a Python function (`@step`).

Their entry point is the SDK's own driver, which reads the function and its arguments from S3 with cloudpickle,
installs what they need, and writes results.json. Nothing here reads a pickle, and the driver speaks to the account:
such a step is refused before anything starts, and a stub gives what its function returns.
https://github.com/aws/sagemaker-python-sdk (remote_function/job.py; workflow/function_step.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.jobs.job_data import words_in

CHANNEL = "sagemaker_remote_function_bootstrap"
RESULTS_FILE = "results.json"


def is_one(arguments: Mapping[str, Any]) -> bool:
    """Return True if a training job runs a function of the SDK."""
    return any(f"/{CHANNEL}/" in str(word) for word in words_in(arguments, "ContainerEntrypoint"))


def refused(step: StepNode) -> str:
    """Why it does not run here, and what helps."""
    return (
        f"step {step.name!r} is a Python function of the SageMaker SDK (@step), which only the SDK can read from the "
        f'account. Give what the function returns with --stub {step.name}=outputs.json, such as {{"Return": 0.93}} '
        f"(or --stub {step.name}, where no step needs it)."
    )


def result_uri(arguments: Mapping[str, Any]) -> str:
    """The URI at which other steps find what the function returned."""
    return f"{str(arguments['OutputDataConfig']['S3OutputPath']).rstrip('/')}/{RESULTS_FILE}"
