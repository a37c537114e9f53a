"""Assign each folder of a place to its training, by the record that its start wrote (drivetrain.steps.trainings)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivetrain.steps.trainings import RECORD, Kept, differences, read_kept
from drivetrain.training.checkpointing.inspection.listing import Listing
from drivetrain.training.checkpointing.inspection.own_files import own_files
from drivetrain.training.checkpointing.places import open_place

_OURS = f"{RECORD.partition('/')[0]}/"


def with_trainings(found: Sequence[Listing]) -> list[Listing]:
    """With the run that started each training, and its differences from the training that was started last. The files
    of another program are listed by training, as far as records tell them apart."""
    recorded = [pair for each in found for pair in (_by_training(each) or [(each, _record(each.place))])]
    latest = max((kept for _, kept in recorded if kept is not None), key=lambda kept: kept.started, default=None)
    return [
        each
        if kept is None or latest is None
        else replace(
            each,
            run=kept.execution or None,
            started=kept.started or None,
            ended=kept.ended,
            differs=tuple(differences(kept.parts, latest.parts)),
        )
        for each, kept in recorded
    ]


def _by_training(found: Listing) -> list[tuple[Listing, Kept]]:
    """The files of another program, those of each training with its record; none where there is no record."""
    listed: list[tuple[Listing, Kept]] = []
    for name in (each.name.rstrip("/") for each in found.own if each.name.endswith("/")):
        place = f"{found.place.rstrip('/')}/{name}"
        if (kept := _record(place)) is not None:
            own = tuple(each for each in own_files(place) if each.name != _OURS)
            listed.append((replace(found, training=name, place=place, own=own), kept))
    return listed


def _record(place: str) -> Kept | None:
    try:
        return read_kept(place, open_place(place).read(RECORD))
    except FileNotFoundError:
        return None
