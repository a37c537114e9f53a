"""The page's section on a training on machines that can be taken away."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count, duration, number, share
from drivetrain.base.markup import Content, Markup, el
from drivetrain.run_store.reasons import known_paths
from drivetrain.telling import scrolled, section, table, tile
from drivetrain.telling.charts.timeline import timeline
from drivetrain.telling.content.goodput import Account, Interruption, JobTimes, account
from drivetrain.telling.content.spot_savings import Prices, Saving, saving

# Where nobody gave a discount; spot machines cost up to 90 % less (https://aws.amazon.com/sagemaker/ai/pricing/).
DISCOUNTS = (0.5, 0.6, 0.7, 0.8, 0.9)
MAX_ROWS, MAX_OPEN_ROWS = 200, 15


def draw(job_times: Sequence[JobTimes], prices: Prices | None = None) -> Markup:
    """The section of all trainings."""
    several = len(job_times) > 1
    blocks = [[el("h3", times.step) if several else None, interruptions(times, prices)] for times in job_times]
    return section("Spot machines" if all(times.spot for times in job_times) else "Interruptions", blocks, id="spot")


def interruptions(times: JobTimes, prices: Prices | None = None) -> Markup:
    """Tiles, timeline and tables of one training."""
    spent = account(times)
    saved = None if prices is None else saving(times, prices)
    tables = [table for table in (_time_table(spent), _saving_table(times, saved)) if table is not None]
    return el(
        "div",
        el("div", _tiles(times, spent, saved), class_="tiles"),
        timeline(times),
        el("div", tables, class_="charts below") if tables else None,
        _table(times),
        el("p", method(spent), class_="method") if spent else None,
        class_="interruptions",
    )


def taken_again(times: JobTimes) -> str:
    """`45 steps taken again`; empty if unknown or nothing was interrupted."""
    lost = times.steps_lost
    if lost is None or not times.interruptions:
        return ""
    return f"{count(lost, 'step')} taken again" if lost else "no step lost"


def method(spent: Account) -> str:
    """How goodput and bound come about, with the measured numbers."""
    said = "Goodput is useful time over all time, without the one start that any training needs."
    save, failure, restart = spent.save_cost, spent.failure_seconds, spent.restart_cost
    if spent.young_goodput is None or failure is None:
        return said
    return (
        f"{said} Young's estimate is 1 - sqrt(2 x save / time between interruptions) - restart / time between "
        f"interruptions, with what was measured here: a save stops the training for {duration(save)}, an interruption "
        f"comes every {duration(failure)}, a restart takes {duration(restart)}. The "
        "estimate assumes no notice; with notice less is lost."
    )


def table_cells(number_of: int, one: Interruption) -> list[str]:
    """A row: number, at which step, resumed from, steps lost, notice, time down, reason."""
    return [
        str(number_of),
        _step(one.at_step),
        "the start" if one.resumed_step == 0 else _step(one.resumed_step),
        _step(one.steps_lost),
        "none" if one.notice_seconds == 0 else duration(one.notice_seconds),
        duration(one.seconds_down),
        one.reason and known_paths(one.reason),
    ]


TABLE_HEAD = ("#", "at step", "resumed from", "steps lost", "notice", "time down", "reason")


def time_rows(spent: Account) -> list[tuple[str, float, str]]:
    """(name, seconds, remark) of what the time was spent on."""
    return [
        ("useful steps", spent.useful, ""),
        ("saves", spent.saving, count(spent.saves, "save")),
        ("work lost", spent.lost, "steps taken again"),
        ("restarts", spent.restarting, "leaving, starting anew, loading"),
        ("no machines", spent.down, count(spent.interruptions, "interruption")),
    ]


def _tiles(times: JobTimes, spent: Account | None, saved: Saving | None) -> list[Markup]:
    tiles = [tile("Interruptions", f"{len(times.interruptions):,}", taken_again(times))]
    if spent:
        bound = spent.young_goodput
        tiles += [
            tile("Goodput", share(spent.goodput), "" if bound is None else f"Young's estimate {share(bound)}"),
            tile("Time wasted", duration(spent.wasted), f"of {duration(spent.total)}"),
        ]
    if saved:
        tiles.append(tile("Saved", share(saved.share), f"at {percent(saved.discount)} off"))
    return tiles


def _time_table(spent: Account | None) -> Markup | None:
    if spent is None:
        return None
    rows = [
        (
            [name, el("small", remark) if remark else None],
            duration(seconds),
            share(seconds / spent.total if spent.total else 0.0),
        )
        for name, seconds, remark in time_rows(spent)
    ]
    return table(("", "time", "share"), rows, right=(1, 2), caption="Where the time went", style="spent")


def _saving_table(times: JobTimes, saved: Saving | None) -> Markup | None:
    if not times.spot:
        return None
    if saved is None:
        found = [one for one in (saving(times, Prices(discount=discount)) for discount in DISCOUNTS) if one]
        if not found:
            return None
        rows: list[tuple[Content, str]] = [(percent(one.discount), share(one.share)) for one in found]
        caption = "Saved against on-demand machines, by the discount of spot ones"
        rows.append((["pays from", el("small", "where interruptions eat it up")], pays_from(found[0])))
        return table(("discount", "saved"), rows, right=(1,), caption=caption, style="spent")
    rows = [
        (["machine time", el("small", "what was paid for")], duration(saved.paid)),
        *([("of it on demand", duration(saved.on_demand))] if saved.on_demand else []),
        (["without interruptions", el("small", "what on-demand machines need")], duration(saved.needed)),
        ("discount", percent(saved.discount)),
        ("saved", share(saved.share)),
        (["pays from", el("small", "the discount that interruptions eat up")], pays_from(saved)),
    ]
    if saved.cost is not None and saved.on_demand_cost is not None:
        rows += [("cost", number(saved.cost)), ("on demand", number(saved.on_demand_cost))]
    return table((), rows, right=(1,), caption="Saved against on-demand machines", style="spent")


def _table(times: JobTimes) -> Markup | None:
    if not times.interruptions:
        return None
    shown = times.interruptions[:MAX_ROWS]
    rows = [table_cells(place, one) for place, one in enumerate(shown, 1)]
    more = f", the first {MAX_ROWS} of {len(times.interruptions):,}" if len(times.interruptions) > MAX_ROWS else ""
    folds = len(shown) > MAX_OPEN_ROWS
    caption = None if folds else f"Interruptions{more}"
    made = scrolled(table(TABLE_HEAD, rows, right=range(1, 6), caption=caption, style="each", lead=None))
    return el("details", el("summary", count(len(shown), "interruption") + more), made) if folds else made


def percent(discount: float) -> str:
    """`70 %`, `66.7 %`."""
    return f"{round(discount * 100, 1):g} %"


def pays_from(saved: Saving) -> str:
    """The discount above which it paid; `never` where the part on on-demand machines alone cost more."""
    return "never" if saved.break_even is None else share(saved.break_even)


def _step(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
