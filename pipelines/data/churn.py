"""3,000 customers of a telephone company, made up: who leaves (churn is yes), by plan, state, use, bill, complaints."""

from collections.abc import Iterator
from random import Random


def table() -> Iterator[tuple[object, ...]]:
    """The header and the rows. An empty cell: the minutes are not known."""
    draw = Random(7).random  # the one method whose numbers are the same in every version of Python
    yield "customer", "plan", "state", "months", "minutes", "bill", "complaints", "churn"
    for customer in range(1, 3001):
        plan, price = (("basic", 10), ("basic", 10), ("plus", 25), ("pro", 40))[int(4 * draw())]
        state = ("BE", "BY", "HH", "NW", "SN", "TH")[int(6 * draw())]
        months, minutes, complaints = int(60 * draw()), 400 * draw(), int(5 * draw() * draw())
        bill = price + 0.05 * minutes + 5 * draw()
        risk = 0.4 - months / 80 + 0.25 * complaints + (0.2 if state in ("HH", "SN") else 0)
        risk += 0.4 if plan == "basic" and minutes > 250 else -0.2
        known = f"{minutes:.1f}" if draw() > 0.05 else ""
        yield customer, plan, state, months, known, f"{bill:.2f}", complaints, "yes" if draw() < risk else "no"
