"""A plan with all that follows from it: what an execution will cost, and what roles must be allowed.

    plan = whole_plan(account, wanted, deployed.read(account, wanted.name))

It reads more of the account than `planning.make_plan`, which is what apply goes by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import Deployed
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.planning.plan import DeploymentPlan
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.prices.lines import lines_of

Json = dict[str, Any]


def whole_plan(
    account: Account,
    wanted: Desired,
    deployed: Deployed | None,
    *,
    discarded: Sequence[str] = (),
    adopted: bool = False,
    origin: Json | None = None,
) -> DeploymentPlan:
    """As `planning.make_plan`, with cost and permissions where something changes.

    Raises:
        UserError: as there.
    """
    return make_plan(
        account,
        wanted,
        deployed,
        discarded=discarded,
        adopted=adopted,
        origin=origin,
        cost=lambda: _cost(account, wanted, deployed),
        permissions=lambda: _permissions(account, wanted, deployed),
    )


def _cost(account: Account, wanted: Desired, deployed: Deployed | None) -> Json:
    from drivetrain.targets.sagemaker.deploy.executions.execution_report import measured_seconds
    from drivetrain.targets.sagemaker.prices.estimate import estimate
    from drivetrain.targets.sagemaker.refusals import ServiceError

    seconds: Mapping[str, float] = {}
    more: list[str] = []
    try:
        if deployed is not None:
            seconds = measured_seconds(account, wanted.name)
    except ServiceError as error:  # an estimate is no reason to have no plan
        more = [f"how long earlier executions took is not known: {error}"]
    found = estimate(wanted.definition, region=account.region, seconds=seconds)
    return {**found.to_json(), "lines": [*lines_of(found), *more]}


def _permissions(account: Account, wanted: Desired, deployed: Deployed | None) -> Json:
    from drivetrain.targets.sagemaker.deploy.planning.consequences import consequences

    if deployed is None:
        return consequences(account, wanted, None, None)
    return consequences(account, wanted, deployed.definition, deployed.role)
