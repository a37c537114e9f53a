"""Savings of a training on spot machines against one on machines that stay."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.telling.content.goodput import JobTimes, account


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of a machine: the spot discount (0.7: 70 % off), and the on-demand price of an hour where it is known."""

    discount: float
    on_demand: float | None = None


@dataclass(frozen=True, kw_only=True)
class Saving:
    """The saving of spot machines against on-demand ones on which the same training runs through.

    `paid` and `needed` are machine seconds: with the work lost and the restarts, and without; `on_demand` are those of
    the paid ones that had the full price, after a training left spot machines. `cost` and `on_demand_cost` are in the
    currency of the price, where one was given.
    """

    discount: float
    paid: float
    needed: float
    on_demand: float = 0.0
    cost: float | None = None
    on_demand_cost: float | None = None

    @property
    def share(self) -> float:
        """The share of the on-demand cost; negative if the interruptions cost more than was saved."""
        return 1.0 - full_price_seconds(self.discount, self.paid, self.on_demand) / self.needed

    @property
    def break_even(self) -> float | None:
        """The discount at which it would have cost as much as on-demand machines alone; None where none is enough."""
        discount = (self.paid - self.needed) / (self.paid - self.on_demand)
        return discount if discount < 1 else None


def full_price_seconds(discount: float, paid: float, on_demand: float) -> float:
    """Machine seconds that cost at the full price what these cost."""
    return (1.0 - discount) * (paid - on_demand) + on_demand


def saving(times: JobTimes, prices: Prices) -> Saving | None:
    """The saving at these prices; None where the times are not known, or nothing ran on spot machines.

    Needed on machines that stay are the steps that count, one start, the saves (they are made there, too) and what
    follows the last step; all else that is paid for counts against the saving.
    """
    spent = account(times)
    paid = times.machine_seconds
    if spent is None or not paid:
        return None
    on_demand, needed = times.on_demand_seconds, paid - spent.lost - spent.restarting
    if needed <= 0 or on_demand >= paid:
        return None
    hours = times.hosts / 3600
    at_price = prices.on_demand
    return Saving(
        discount=prices.discount,
        paid=paid * times.hosts,
        needed=needed * times.hosts,
        on_demand=on_demand * times.hosts,
        cost=None if at_price is None else at_price * full_price_seconds(prices.discount, paid, on_demand) * hours,
        on_demand_cost=None if at_price is None else at_price * needed * hours,
    )
