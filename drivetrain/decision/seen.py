"""Find what a model knows of its test set from its training: its numbers are too good for new data then.

`evaluate` writes it into evaluation.json, under `data`:

    "trained_on": true                              the test set is the very data that the model was trained on
    "calibrated_on": true                           it is the very data that the model was calibrated on
    "shared_keys": {"keys": 12, "compared": 512, "share": 0.14}     of the training data's keys, as far as they were
                                                    compared (drivetrain/data/key_sample.py)
    "shared_calibration_keys": {...}                the same of the keys of the calibration set
    "leakage": {"rows": 12, "groups": {"user": 3}}  what prepare_data counted (drivetrain/data/leakage.py)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.json_text import object_in
from drivetrain.decision.formatting import count


def seen(data: Mapping[str, Any]) -> Iterator[str]:
    """The sentences; none if no overlap of the test set with the model's training data was found."""
    for verb, flag, name, where in (
        ("trained", "trained_on", "shared_keys", "training data"),
        ("calibrated", "calibrated_on", "shared_calibration_keys", "calibration set"),
    ):
        shared = object_in(data, name)
        if data.get(flag) is True:
            yield f"The model was {verb} on this very test set."
        elif keys := _number(shared.get("keys")):
            is_sample = shared.get("share") not in (1, None)
            of = f", of the {_number(shared.get('compared')):,} that were compared," if is_sample else ""
            yield f"{count(keys, 'key')} of the test set{of} {_are(keys)} in the {where}, too."
    leakage = object_in(data, "leakage")
    if rows := _number(leakage.get("rows")):
        yield f"{count(rows, 'row')} of the test set {_are(rows)} in the training data, too, but for the key."
    for column, values in object_in(leakage, "groups").items():
        if many := _number(values):
            yield f"{count(many, 'value')} of {column} {_are(many)} in the test set and in the training data."


def check_unseen(sentences: tuple[str, ...], seen_data: str) -> None:
    """
    Raises:
        InputError: the model knows the test set, and nobody allows that.
    """
    if seen_data not in ("refuse", "report"):
        raise InputError(f"seen_data={seen_data!r}. Allowed: refuse, report.")
    if sentences and seen_data == "refuse":
        raise InputError(
            f"{' '.join(sentences)} So its numbers say little of new data, and nothing is decided on them. Evaluate on "
            "rows that the training has not seen (transform_data removes duplicates, split_by=group:COLUMN keeps "
            "groups together), or decide all the same with seen_data=report: then the decision only mentions it (right "
            "if the keys are just row numbers of each file)."
        )


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _are(amount: int) -> str:
    return "is" if amount == 1 else "are"
