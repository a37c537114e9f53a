"""A state machine of an account."""

from __future__ import annotations

import re

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.account import Account

_MACHINE = re.compile(r"arn:aws[a-z-]*:states:([a-z0-9-]+):\d{12}:stateMachine:[^:]+(?::\d+)?")


def fetch_machine(arn: str) -> str:
    """The state machine of that ARN, as JSON of the States Language.

    Raises:
        UserError: an ARN of something else.
        ServiceError: AWS refuses.
    """
    found = _MACHINE.fullmatch(arn)
    if found is None:
        raise UserError(f"{arn} is no ARN of a state machine: arn:aws:states:REGION:ACCOUNT:stateMachine:NAME.")
    account = Account(found[1])
    there = account.call("stepfunctions", "describe_state_machine", about=f"state machine {arn}", stateMachineArn=arn)
    return str(there["definition"])
