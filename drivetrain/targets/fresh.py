"""A start with `--fresh`: a value of the pipeline parameter that `with_fresh` (target.py) declares.

A platform has no switch at a start for its cache, but compares the variables (SageMaker) and input parameters
(Kubeflow) of a step with those of earlier ones. So there is no cached result for a value that no other start has. A
training names its checkpoints by it, too, and finds none of an earlier execution.

The default is a word, for a start with an empty value was refused by SageMaker ('string "" is too short',
https://github.com/aws/sagemaker-python-sdk/issues/4016), and Studio wants every field filled.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.steps import FRESH_PARAMETER, fresh_token


def is_fresh(parameters: Mapping[str, Any]) -> bool:
    """Return True if a run with these values was started with --fresh."""
    return fresh_token(parameters, FRESH_PARAMETER) != ""


def made_fresh(declared: Iterable[str], parameters: Mapping[str, Any], token: str) -> dict[str, Any]:
    """The parameters of a fresh start; a value that is given stays.

    Args:
        declared: the parameters of the definition. A definition made by another tool lacks this parameter.
    """
    return {FRESH_PARAMETER: token, **parameters} if FRESH_PARAMETER in declared else dict(parameters)


def deployed_start(parameters: Mapping[str, str], declared: Iterable[str], pipeline: str, token: str) -> dict[str, str]:
    """The parameters of a fresh start of what is deployed.

    Raises:
        UserError: what is deployed has no such parameter.
    """
    found = made_fresh(declared, parameters, token)
    if FRESH_PARAMETER not in found:
        raise UserError(
            f"--fresh: {pipeline!r} as it is deployed has no parameter {FRESH_PARAMETER}. Deploy it again (drivetrain "
            "apply). A pipeline in which no step is cached or trains has none: it starts anew each time."
        )
    return found


def new_token() -> str:
    """A value that no other start has."""
    return secrets.token_hex(6)
