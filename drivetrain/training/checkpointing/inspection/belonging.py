"""Which training each folder of a place belongs to, by the record that its start wrote (drivetrain.steps.trainings)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivetrain.steps.trainings import RECORD, Kept, differences, read_kept
from drivetrain.training.checkpointing.inspection.listing import Listing
from drivetrain.training.checkpointing.inspection.own_files import own_files
from drivetrain.training.checkpointing.places import open_place

_OURS = f"{RECORD.partition('/')[0]}/"


def with_trainings(found: Sequence[Listing]) -> list[Listing]:
    """With the run that started each training, and in what it differs from the one that was started last."""
    kept = [_record(each.place) for each in found]
    latest = max((each for each in kept if each is not None), key=lambda each: each.started, default=None)
    return [
        each
        if record is None or latest is None
        else replace(
            each,
            run=record.execution or None,
            started=record.started or None,
            ended=record.ended,
            differs=tuple(differences(record.parts, latest.parts)),
        )
        for each, record in zip(found, kept, strict=True)
    ]


def by_training(found: Listing) -> list[Listing]:
    """The files of another program, those of each of its trainings by themselves."""
    names = [each.name.rstrip("/") for each in found.own if each.name.endswith("/")]
    places = {name: f"{found.place.rstrip('/')}/{name}" for name in names}
    listed = [
        replace(found, training=name, place=place, own=tuple(each for each in own_files(place) if each.name != _OURS))
        for name, place in places.items()
        if _record(place) is not None
    ]
    return listed or [found]


def _record(place: str) -> Kept | None:
    try:
        return read_kept(place, open_place(place).read(RECORD))
    except FileNotFoundError:
        return None
