"""The colour and dashes of a run: the same in every chart, on every page, at every reload."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

NUM_PLACES = 12
"""Styles .s1 to .s12 of page.css: six colours, each with two kinds of dashes."""


def run_places(ids: Iterable[str]) -> dict[str, int]:
    """Run -> number of its style, by the hash of its id. A run whose style another one has takes the next free one,
    whatever the order of the runs; of more runs than styles some share one."""
    places: dict[str, int] = {}
    for id in sorted(set(ids)):
        first = int(sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) % NUM_PLACES
        order = [(first + step) % NUM_PLACES + 1 for step in range(NUM_PLACES)]
        taken = set(places.values())
        places[id] = next((place for place in order if place not in taken), order[0])
    return places
