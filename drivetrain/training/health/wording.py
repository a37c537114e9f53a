"""How many rules did what, in words: for the terminal and the run's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def rules_in_words(actions: Iterable[str], num_rules: int) -> str:
    """
    Args:
        actions: of each rule that fired.
        num_rules: that watched the training.
    """
    counts = Counter(actions)
    if not counts:
        return f"none of {num_rules} rules found anything"
    said = [f"{counts['fail'] + counts['stop'] or 'none'} of {num_rules} rules failed the training"]
    others = {"warn": "warned", "note": "made a note"}
    return ", ".join([*said, *(f"{counts[action]} {did}" for action, did in others.items() if counts[action])])
