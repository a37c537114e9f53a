"""Lines for a terminal about a training on machines that can be taken away."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import count, duration, number, printable, share
from drivetrain.telling.content.goodput import JobTimes, account
from drivetrain.telling.content.spot_savings import Prices, Saving, saving
from drivetrain.telling.page.interruptions import (
    TABLE_HEAD,
    pays_from,
    percent,
    table_cells,
    taken_again,
    time_rows,
)
from drivetrain.telling.terminal import paint, table, width

MAX_ROWS = 12
_EXAMPLE = "--price on_demand=1.20,spot=0.36, for one machine and hour"


def read_prices(price: str | None, discount: float | None) -> Prices | None:
    """The prices given by `--price` and `--spot-discount`.

    Raises:
        UserError: both are given, or one is no price.
    """
    if price is None:
        if discount is None:
            return None
        if not 0 <= discount < 1:
            raise UserError(f"--spot-discount {discount:g}: give a share from 0 to below 1, such as 0.7 for 70 % off.")
        return Prices(discount=discount)
    if discount is not None:
        raise UserError("--price and --spot-discount both say what spot machines cost. Give one of them.")
    given: dict[str, float] = {}
    for part in price.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        try:
            given[name] = float(value)
        except ValueError:
            raise UserError(f"--price {price!r}: {part!r} is no NAME=NUMBER. Give {_EXAMPLE}.") from None
    if set(given) != {"on_demand", "spot"} or price.count(",") != 1:
        raise UserError(f"--price {price!r}: both prices are needed, on_demand and spot. Give {_EXAMPLE}.")
    if not 0 < given["on_demand"] < 1e9 or not 0 <= given["spot"] <= given["on_demand"]:
        raise UserError(f"--price {price!r}: a price is above 0, and spot is at most on_demand. Give {_EXAMPLE}.")
    return Prices(discount=1 - given["spot"] / given["on_demand"], on_demand=given["on_demand"])


def interrupted_lines(times: JobTimes, prices: Prices | None) -> list[str]:
    """A headline, where the time went, the interruptions, and what was saved."""
    number_of, again = len(times.interruptions), taken_again(times)
    told = f"interrupted {count(number_of, 'time')}" if number_of else "on spot machines, not interrupted"
    told += f", {again}" if again else ""
    spent = account(times)
    if spent:
        bound = spent.young_goodput
        told += f", goodput {share(spent.goodput)}"
        told += f" (Young's estimate: {share(bound)})" if bound is not None else ""
    lines = [f"{paint(printable(times.step), 'bold')}: {told}"]
    if spent:
        lines.append("  " + ", ".join(f"{name} {duration(seconds)}" for name, seconds, _ in time_rows(spent)))
    if number_of:
        shown = times.interruptions[:MAX_ROWS]
        rows = table(TABLE_HEAD, [table_cells(place, one) for place, one in enumerate(shown, 1)], room=width() - 2)
        lines += [f"  {row}" for row in rows.splitlines()]
        if number_of > MAX_ROWS:
            lines.append(f"  {number_of - MAX_ROWS} more, which the report and --json have")
    saved = None if prices is None else saving(times, prices)
    if saved:
        lines.append("  " + _saved(saved))
    elif times.spot and prices is None:
        lines.append("  --spot-discount 0.7 says what was saved")
    return lines


def _saved(saved: Saving) -> str:
    text = f"saved {share(saved.share)} at {percent(saved.discount)} off"
    text += f", with {share(saved.on_demand / saved.paid)} of the time on demand" if saved.on_demand else ""
    text += "; it pays at no discount" if saved.break_even is None else f"; it pays from {pays_from(saved)} off"
    if saved.cost is None or saved.on_demand_cost is None:
        return text
    return f"{text}; cost {number(saved.cost)}, on demand {number(saved.on_demand_cost)}"


def interrupted_json(times: JobTimes, prices: Prices | None) -> dict[str, Any]:
    """The same for scripts; times in seconds, shares from 0 to 1."""
    spent, saved = account(times), None if prices is None else saving(times, prices)
    return {
        "spot": times.spot,
        "interruptions": [asdict(one) for one in times.interruptions],
        "steps_lost": times.steps_lost,
        "training_seconds": times.training_seconds,
        "billable_seconds": times.billable_seconds,
        "time": spent
        and {
            "total": spent.total,
            "useful": spent.useful,
            "saves": spent.saving,
            "work_lost": spent.lost,
            "restarts": spent.restarting,
            "no_machines": spent.down,
        },
        "goodput": spent and spent.goodput,
        "young_bound": spent and spent.young_goodput,
        "seconds_a_save": spent and spent.save_cost,
        "seconds_between_interruptions": spent and spent.failure_seconds,
        "seconds_a_restart": spent and spent.restart_cost,
        "saving": saved and {**asdict(saved), "share": saved.share, "break_even": saved.break_even},
    }
