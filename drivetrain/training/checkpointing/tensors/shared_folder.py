"""Finds out which ranks keep their checkpoints in the same folder."""

from __future__ import annotations

import secrets

from drivetrain.training.checkpointing.places import Place
from drivetrain.training.group import Group
from drivetrain.training.problem import Problem


def first_ranks(place: Place, exchange: Group) -> list[int]:
    """For each rank the first rank that has the same folder. Every rank must call it.

    Each leaves a file and looks for those of the ranks before it, by name: the list of a folder may be an old one on a
    network's file system, a name that nobody has asked for before is looked up.

    Raises:
        InputError: a rank cannot write to its place.
        AwayError: it is a service that does not answer.
    """
    if exchange.size == 1:
        return [0]
    nonce = exchange.from_main(secrets.token_bytes(8) if exchange.rank == 0 else None).hex()

    def name(rank: int) -> str:
        return f"meeting-{nonce}-{rank:05d}.partial"  # what is left of it in a crash is cleaned up as a leftover

    def create() -> Problem | None:
        try:
            place.create(name(exchange.rank), b"")
        except OSError as error:
            return Problem.of(error, f"rank {exchange.rank} cannot keep checkpoints in {place.uri}: {error}.")
        return None

    def look() -> int:
        return next((rank for rank in range(exchange.rank) if _is_there(place, name(rank))), exchange.rank)

    problems = exchange.gather_json(exchange.meanwhile(create))
    if problem := next(filter(None, problems), None):
        raise Problem(*problem).raised()
    firsts = exchange.gather_json(exchange.meanwhile(look))  # nobody removes a file before all have looked
    exchange.meanwhile(lambda: place.remove([name(exchange.rank)]))
    return firsts


def _is_there(place: Place, name: str) -> bool:
    try:
        place.read(name)
    except FileNotFoundError:
        return False
    return True
