"""Once is chance: what must be so in several records, one after the other."""

from __future__ import annotations

from collections.abc import Iterable


class InARow:
    """Counts for each name in how many records it has been met without a break."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._counts: dict[str, int] = {}

    def __call__(self, met: Iterable[str]) -> list[str]:
        """Those that have now been met often enough, in the order given."""
        names = list(met)
        self._counts = {name: self._counts.get(name, 0) + 1 for name in names}
        return [name for name in names if self._counts[name] >= self._wanted]

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew to count these."""
        for name in names:
            self._counts.pop(name, None)
