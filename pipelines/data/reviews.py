"""600 reviews of restaurants, made up: three sentences each, and the label that most of them say."""

from collections.abc import Iterator
from random import Random

THINGS = ("soup", "bread", "fish", "service", "music", "terrace", "coffee", "dessert", "menu", "wine")
GOOD = ("warm", "fresh", "lovely", "quick", "excellent", "generous")
BAD = ("cold", "stale", "rude", "slow", "awful", "noisy")


def table() -> Iterator[tuple[object, ...]]:
    """The header and the rows."""
    draw = Random(7).random  # the one method whose numbers are the same in every version of Python
    yield "id", "text", "label"
    for number in range(600):
        likes = draw() < 0.5
        words: list[str] = []
        for _ in range(3):
            kinds = GOOD if (draw() < 0.85) == likes else BAD
            words += "the", THINGS[int(10 * draw())], "was", kinds[int(6 * draw())]
        yield number, " ".join(words), "good" if likes else "bad"
