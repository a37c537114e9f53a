"""`drivetrain prices`: what SageMaker charges, as far as it is known here, and its refreshment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.prices.table import PriceTable, Sheet

app = App(help="What SageMaker charges: show what is known, fetch it anew.")

Regions = Annotated[list[str] | None, Option("--region", metavar="REGION", help="Only of this region. Repeatable.")]
Types = Annotated[list[str] | None, Argument(metavar="TYPE", help="Only of these instance types.", show_default=False)]


@app.command()
def show(types: Types = None, region: Regions = None, as_json: Json = False) -> None:
    """Show the prices behind estimates, their sources and their age.

    \b
    Examples:
      drivetrain prices show ml.g5.xlarge --region us-east-1
    """
    from drivetrain.targets.sagemaker.prices.table import PriceTable, current

    table = current()
    for name in region or ():
        if name not in table.regions:
            raise UserError(
                f"No prices of region {name!r} are known. {did_you_mean(name, table.regions)} Fetch them: drivetrain "
                f"prices update --region {name}"
            )
    shown = PriceTable(tuple(each for each in table.sheets if not region or each.region in region), table.currency)
    shown = shown.only(types) if types else shown
    if as_json:
        say_json(_as_json(shown))
    else:
        say("\n".join(_lines(shown)))


@app.command()
def update(
    region: Annotated[
        list[str] | None,
        Option("--region", metavar="REGION", help="Repeatable.  [default: the region of $AWS_REGION or the profile]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch a region's whole list through the AWS Price List API.

    It needs the permission pricing:GetProducts. The list is kept in $DRIVETRAIN_PRICES, or else in
    ~/.local/share/drivetrain/prices.json, and takes precedence over the shipped list.

    \b
    Examples:
      drivetrain prices update --region eu-west-1
    """
    from drivetrain.targets.sagemaker.account import checked_region, region_or_default
    from drivetrain.targets.sagemaker.prices import update as updating
    from drivetrain.targets.sagemaker.prices.table import user_file

    regions = [checked_region(name) for name in dict.fromkeys(region)] if region else [region_or_default(None)]
    place = user_file()
    table = updating.update(regions, place)
    fetched = [sheet for name in regions for sheet in table.of_region(name)]
    if as_json:
        say_json({"file": str(place), "regions": {sheet.region: _count(sheet) for sheet in fetched}})
        return
    for sheet in fetched:
        say(f"{sheet.region}: {_count(sheet):,} prices of {sheet.date.isoformat()}")
    say(f"written to {place}")


def _count(sheet: Sheet) -> int:
    return sum(len(prices) for prices in sheet.hourly.values()) + len(sheet.storage)


def _as_json(table: PriceTable) -> dict[str, Any]:
    from drivetrain.targets.sagemaker.prices.table import days_old

    said = table.to_json()
    for sheet, entry in zip(table.sheets, said["sheets"], strict=True):
        entry["days_old"] = days_old(sheet.date)
    return said


def _lines(table: PriceTable) -> list[str]:
    from drivetrain.targets.sagemaker.prices.table import KINDS, age_line

    if not table.sheets:
        return ["no prices are known; fetch them with drivetrain prices update"]
    newest, oldest = max(sheet.date for sheet in table.sheets), min(sheet.date for sheet in table.sheets)
    lines = [age_line(newest)] if newest == oldest else [f"newest: {age_line(newest)}", f"oldest: {age_line(oldest)}"]
    lines.append(f"on demand, in {table.currency}: an hour of one machine, a month of one GB of its volume")
    for name in table.regions:
        rows = _rows(table, name)
        lines += ["", name]
        widths = [max(len(row[column]) for row in (("", *KINDS, "of", ""), *rows)) for column in range(5)]
        header = ("", *KINDS, "of", "")
        for row in (header, *rows):
            cells = (row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in (1, 2, 3)), row[4])
            lines.append(("  " + "  ".join(cells)).rstrip())
    lines += ["", "sources"]
    sources = {(sheet.region, sheet.date.isoformat(), sheet.source) for sheet in table.sheets}
    lines += [f"  {name}, {date}: {source}" for name, date, source in sorted(sources)]
    return lines


def _rows(table: PriceTable, region: str) -> list[tuple[str, ...]]:
    from drivetrain.targets.sagemaker.prices.table import KINDS

    sheets = table.of_region(region)
    names = sorted({name for sheet in sheets for prices in sheet.hourly.values() for name in prices}, key=_by_size)
    priced = [(name, [table.hourly(region, kind, name) for kind in KINDS]) for name in names]
    volumes = [table.storage(region, kind) for kind in KINDS]
    priced += [("volume, GB-month", volumes)] if any(volumes) else []
    rows: list[tuple[str, ...]] = []
    for name, prices in priced:
        days = sorted({price.date.isoformat() for price in prices if price})
        rows.append((name, *("–" if price is None else f"{price.amount:.10g}" for price in prices), ", ".join(days)))
    return rows


def _by_size(name: str) -> tuple[str, int, str]:
    """Families by name, their sizes as they grow: large, xlarge, 2xlarge, 16xlarge."""
    family, _, size = name.removeprefix("ml.").partition(".")
    number = size.removesuffix("xlarge")
    order = {"medium": -2, "large": -1, "xlarge": 1}.get(size, int(number) if number.isdigit() else 0)
    return family, order, size
