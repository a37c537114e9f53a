"""Fetching a region's whole price list of SageMaker through the AWS Price List API.

The API answers in a few regions for all of them; us-east-1 is used. It needs the permission pricing:GetProducts and
nothing else. What is billed is told by a product's usage type: `EUW3-Train:ml.m5.xlarge` is an hour of a training
job's machine in a region, `EUW3-Train:VolumeUsage.gp2` a GB-month of its volume.
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html
https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.prices.table import KINDS, PriceTable, Sheet, read, write

ENDPOINT = "us-east-1"
SERVICE = "AmazonSageMaker"
SOURCE = "AWS Price List API"
CURRENCY = "USD"
# What the price list calls the kinds of jobs.
_KINDS = {"Train": "Training", "Processing": "Processing", "Tsform": "Transform"}
_USAGE = re.compile(
    r"(?:[A-Z]{2,4}\d*-)?(?P<kind>Train|Processing|Tsform):(?P<what>ml\.[a-z0-9.-]+|VolumeUsage\.gp2)", re.ASCII
)
_UNITS = {"Hrs": "hourly", "Hours": "hourly", "GB-Mo": "storage", "GB-Month": "storage"}

Json = dict[str, Any]
Pages = Callable[..., Iterable[Any]]
"""As `Account.pages`: (service, operation, items, *, about, **arguments) -> items."""


def update(
    regions: Sequence[str], place: Path, pages: Pages | None = None, today: datetime.date | None = None
) -> PriceTable:
    """Fetch the lists of some regions into a file; the lists of other regions in it stay.

    Nothing is written unless all of them came, and then the whole file at once. A file that is broken is written anew.

    Args:
        pages: where the products come from; AWS, with the credentials that boto3 finds, unless given.

    Returns:
        What the file holds now.

    Raises:
        UserError: a region without prices, no answer, credentials that are missing or do not suffice, a file that
            cannot be read or written.
    """
    day = today or datetime.datetime.now(datetime.UTC).date()
    before = _before(place)
    fetched = [fetch(region, pages or _aws(), day) for region in dict.fromkeys(regions)]
    table = before.including(fetched)
    write(place, table)
    return table


def _before(place: Path) -> PriceTable:
    """Read the prices in the file; empty if there is no file, or if it is no price list and this is to repair it."""
    try:
        return read(place) if place.exists() else PriceTable((), CURRENCY)
    except UserError as error:
        if isinstance(error.__cause__, OSError):
            raise
        return PriceTable((), CURRENCY)


def fetch(region: str, pages: Pages, day: datetime.date) -> Sheet:
    """The list of a region as it is today.

    Raises:
        UserError: the list has no such region, or AWS does not answer.
    """
    if region.startswith("cn-"):
        raise UserError(f"{region}: AWS keeps no price list of the regions of China there. Give another region.")
    hourly: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    storage: dict[str, float] = {}
    products = pages(
        "pricing",
        "get_products",
        "PriceList",
        about=f"the prices of region {region}",
        ServiceCode=SERVICE,
        FormatVersion="aws_v1",
        Filters=[{"Type": "TERM_MATCH", "Field": "regionCode", "Value": region}],
    )
    for text in products:
        for usage, unit, amount in _rates(text, region):
            found = _USAGE.fullmatch(usage)
            if found is None or amount <= 0:  # a free tier is listed with a price of 0
                continue
            kind, what = _KINDS[found["kind"]], found["what"]
            of_volume = not what.startswith("ml.")
            if _UNITS.get(unit) != ("storage" if of_volume else "hourly"):
                continue
            # Where a usage has several rates the highest is the bound that an estimate needs.
            if of_volume:
                storage[kind] = max(amount, storage.get(kind, 0.0))
            else:
                hourly[kind][what] = max(amount, hourly[kind].get(what, 0.0))
    if not any(hourly.values()):
        raise UserError(
            f"The price list of SageMaker has no machines in region {region!r}. Is the name right? Examples: "
            "us-east-1, eu-west-1. Nothing was written."
        )
    return Sheet(region, day, SOURCE, {kind: prices for kind, prices in hourly.items() if prices}, storage)


def _rates(text: Any, region: str) -> Iterable[tuple[str, str, float]]:
    """(usage type, unit, amount) of each on-demand rate of a product."""
    try:
        product: Json = json.loads(text)
        usage = str(product["product"]["attributes"]["usagetype"])
        terms = cast("Json", product.get("terms", {}).get("OnDemand", {}))
        return [
            (usage, str(rate["unit"]), float(rate["pricePerUnit"][CURRENCY]))
            for term in terms.values()
            for rate in term["priceDimensions"].values()
            if CURRENCY in rate["pricePerUnit"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"The price list of region {region} cannot be read ({type(error).__name__}: {error}): {text!r:.200}. "
            "Nothing was written; a newer version of drivetrain may know its form."
        ) from None


def _aws() -> Pages:
    from drivetrain.targets.sagemaker.account import Account

    return Account(ENDPOINT).pages
