"""Who is to blame for a collective that never ends, told from what each rank has begun."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drivetrain.training.launch.processes.blame import Verdict, find_mismatch, find_missing
from drivetrain.training.launch.processes.collectives import MOST_KEPT, Collective

STEP = ["all_reduce 10", "broadcast 3", "all_gather 2"]


def begun(*calls: str, group: str = "0", first: int = 1, ranks: Sequence[int] = (0, 1, 2)) -> list[Collective]:
    """`all_reduce 10` is one of 10 elements; the last of them has a line."""
    found: list[Collective] = []
    for number, call in enumerate(calls, start=first):
        operation, size = call.split()
        place = f"train.py, line {number}" if number == first + len(calls) - 1 else ""
        found.append(Collective(group, tuple(ranks), number, operation, ((int(size),),), "Float", place))
    return found


def test_the_rank_that_is_behind_is_missing_and_others_wait() -> None:
    known = {0: begun(*STEP), 1: begun(*STEP[:2]), 2: begun(*STEP)}
    verdict = find_missing(known, [])
    assert verdict == Verdict(
        "hang", (1,), "it did not come to all_gather of float [2] (collective 3, called at train.py, line 3)", (0, 2)
    )
    assert verdict is not None and verdict.after_timeout().endswith("line 3) before rank 0, rank 2 timed out")


def test_a_silent_rank_is_missing() -> None:
    verdict = find_missing({0: begun(*STEP), 1: begun(*STEP)}, [2])
    assert verdict is not None and verdict.ranks == (2,) and verdict.waiting == (0, 1)
    verdict = find_missing({}, [2])
    assert verdict is not None
    assert verdict.after_timeout() == "it did not come to a collective before the others timed out"


def test_a_rank_waiting_elsewhere_for_the_missing_one_is_not_blamed() -> None:
    pair, all_ranks = (1, 2), (0, 1, 2)
    known = {
        0: [*begun(*STEP, ranks=all_ranks)],
        1: [*begun(*STEP[:2], ranks=all_ranks), *begun("all_reduce 5", group="1", ranks=pair)],
        2: [*begun(*STEP[:2], ranks=all_ranks)],
    }
    verdict = find_missing(known, [])
    assert verdict is not None and verdict.ranks == (2,)


def test_no_rank_is_missing_if_all_arrived() -> None:
    assert find_missing({rank: begun(*STEP) for rank in range(3)}, []) is None


def test_a_group_without_records_gives_no_answer() -> None:
    rare = begun("all_reduce 5", group="1")
    often = begun(*["all_reduce 1"] * MOST_KEPT)
    known = {0: [*rare, *often], 1: often, 2: often}
    assert find_missing(known, []) is None


@pytest.mark.parametrize("culprit", [0, 1, 2])
@pytest.mark.parametrize("own", [["broadcast 3"], ["all_reduce 11"]], ids=["skipped", "other size"])
def test_the_one_of_three_that_calls_another_is_out_of_step(own: list[str], culprit: int) -> None:
    known = {rank: begun(*STEP, *(own if rank == culprit else ["all_reduce 10"])) for rank in range(3)}
    verdict = find_mismatch(known)
    assert verdict is not None and (verdict.kind, verdict.ranks) == ("mismatch", (culprit,))
    operation, size = own[0].split()
    assert verdict.text.startswith(f"it calls {operation} of float [{size}] (collective 4, called at train.py, line 4)")
    assert "where rank" in verdict.text and "calls all_reduce of float [10] (collective 4, called at" in verdict.text


@pytest.mark.parametrize("culprit", [0, 1])
@pytest.mark.parametrize(
    ("step", "skipped"), [(STEP, 0), (STEP, 1), (STEP, 2), (["all_reduce 1", "all_reduce 1", "broadcast 2"], 1)]
)
def test_of_two_it_is_the_one_that_leaves_the_order_of_the_steps_before(
    step: list[str], skipped: int, culprit: int
) -> None:
    right = [*step, *step, *step, *step]
    wrong = right[: 2 * len(step) + skipped] + right[2 * len(step) + skipped + 1 :]
    place = next(place for place, (one, other) in enumerate(zip(right, wrong, strict=False)) if one != other)
    known = {culprit: begun(*wrong[: place + 1]), 1 - culprit: begun(*right[: place + 1])}
    verdict = find_mismatch(known)
    assert verdict is not None and verdict.ranks == (culprit,)


def test_sizes_may_differ_where_ranks_give_what_they_like() -> None:
    assert find_mismatch({0: begun("all_to_all 5"), 1: begun("all_to_all 6")}) is None
    assert find_mismatch({0: begun(*STEP), 1: begun(*STEP[:2])}) is None


def test_many_ranks_are_not_all_written_out() -> None:
    verdict = find_missing({rank: begun(*STEP, ranks=range(12)) for rank in range(11)}, [11])
    assert verdict is not None and verdict.after_timeout().endswith("rank 7 and 3 more timed out")
