"""Three years of daily sales of three shops, made up: a week's rhythm, the seasons, promotions, and noise."""

import math
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random

SHOPS = {"market": 60, "station": 90, "suburb": 40}


def table() -> Iterator[tuple[object, ...]]:
    """The header and the rows. `last_week` is what the shop sold seven days earlier."""
    draw = Random(7).random  # the one method whose numbers are the same in every version of Python
    yield "id", "day", "shop", "weekday", "week", "promotion", "last_week", "sold"
    sold: dict[tuple[str, int], int] = {}
    for number in range(-7, 3 * 365):
        day = date(2023, 1, 1) + timedelta(days=number)
        for shop, mean in SHOPS.items():
            promotion = draw() < 0.1
            season = 1 + 0.3 * math.sin(2 * math.pi * number / 365)
            rhythm = (1.0, 0.9, 0.9, 1.0, 1.3, 1.5, 0.6)[day.weekday()] if shop != "station" else 1.0
            noise = 0.7 + 0.2 * (draw() + draw() + draw())
            sold[shop, number] = round(mean * season * rhythm * noise * (1.4 if promotion else 1))
            if number >= 0:
                week, before = day.isocalendar().week, sold[shop, number - 7]
                yield f"{shop}-{day}", day, shop, day.weekday(), week, int(promotion), before, sold[shop, number]
