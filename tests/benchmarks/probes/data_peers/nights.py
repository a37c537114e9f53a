"""The nights of orders.py judged by a peer, in its own environment.

    python nights.py with_evidently FOLDER       FOLDER has good/, clean/ and faults/, each a folder a night

Prints {"clean": [[alarm, ...] of each night], "faults": {name: [alarm, ...]}}. Each alarm is what failed, in the peer's
words. What pandas cannot read is an alarm, too.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

TIME = "ordered_at"
Judge = Callable[[Any, Any], Iterator[str]]


def read(folder: Path) -> Any:
    (path,) = folder.iterdir()
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, parse_dates=[TIME])


def judged(judge: Judge, before: Any, folder: Path) -> list[str]:
    """The alarms of a night; `before` is the night before it."""
    try:
        tonight = read(folder)
    except Exception as error:  # a file that cannot be read stops a night by itself
        return [f"pandas: {type(error).__name__}: {str(error)[:80]}"]
    try:
        return [*judge(before, tonight)]
    except Exception as error:  # so does a judge that breaks
        return [f"{type(error).__name__}: {str(error)[:80]}"]


def main(peer: str, place: str) -> None:
    warnings.simplefilter("ignore")
    folder = Path(place)
    good, clean, faults = (sorted((folder / name).iterdir()) for name in ("good", "clean", "faults"))
    known = [read(night) for night in good]
    judge: Judge = importlib.import_module(peer).prepared(known)
    before = [known[-1], *(read(night) for night in clean)]
    said: dict[str, Any] = {
        "clean": [judged(judge, *pair) for pair in zip(before[:-1], clean, strict=True)],
        "faults": {night.name: judged(judge, before[-1], night) for night in faults},
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
