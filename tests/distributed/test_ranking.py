"""An exact ranking on several ranks: the same as on one, with collectives and bytes as promised."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from sklearn.metrics import average_precision_score, roc_auc_score

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Ranked, Ranking
from drivetrain.training.metric_states.ranking.ranking import rank_exactly
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
Parts = list[Ranking]
Case = dict[str, Parts]


def dealt(scores: Any, positive: Any, ranks: int, random: np.random.Generator) -> Parts:
    """Each rank's part, of any size."""
    edges = np.sort(random.integers(0, len(scores) + 1, ranks - 1))
    pieces = zip(np.split(np.asarray(scores, float), edges), np.split(np.asarray(positive, bool), edges), strict=True)
    return [Ranking(*piece) for piece in pieces]


def cases(ranks: int) -> dict[str, Case]:
    random = np.random.default_rng(ranks)
    many = random.random(3000)
    found: dict[str, Case] = {
        f"{size} samples": {"a": dealt(random.random(size), random.random(size) < 0.5, ranks, random)}
        for size in range(3 * ranks + 2)
    }
    plain = {
        "all equal": (np.full(500, 0.3), random.random(500) < 0.5),
        "two values": (random.integers(0, 2, 500) / 2, random.random(500) < 0.5),
        "zero positives": (random.random(500), np.zeros(500)),
        "all positive": (random.random(500), np.ones(500)),
        "many ties": (np.round(many, 2), random.random(3000) < many),
        "no ties": (many, random.random(3000) < many),
        "in order": (np.sort(many), random.random(3000) < 0.1),
        "saturated": (np.concatenate([np.zeros(900), [5e-324, 1e-320, -0.0], np.ones(97)]), random.random(1000) < 0.2),
        "neighbours": (0.3 + random.integers(0, 9, 500) * 2.0**-54, random.random(500) < 0.5),
        "any numbers": (random.normal(size=700) * 10.0 ** random.integers(-300, 300, 700), random.random(700) < 0.5),
    }
    found |= {name: {"a": dealt(*samples, ranks, random)} for name, samples in plain.items()}
    empty = Ranking(np.empty(0), np.empty(0, bool))
    found["on one rank alone"] = {"a": [*[empty] * (ranks - 1), Ranking(many, random.random(3000) < 0.5)]}
    found["several"] = {
        f"class_{place}": dealt(*samples, ranks, random) for place, samples in enumerate(plain.values())
    }
    return found


def whole(case: Case) -> dict[str, Ranked]:
    """On one process."""
    return rank_exactly(ALONE, case, curves=True)[0]


def rank_all(process: Process, several: dict[str, Case], round_bytes: int) -> dict[str, Any]:
    dealt_in: list[int] = []
    deal = dist.all_to_all_single

    def watched(came: torch.Tensor, sent: torch.Tensor, *splits: Any, **more: Any) -> None:
        dealt_in.append(sent.nbytes)
        deal(came, sent, *splits, **more)

    found = {}
    dist.all_to_all_single = watched  # type: ignore[assignment]  (a forked process of its own)
    for name, case in several.items():
        dealt_in.clear()
        ranked, collectives = rank_exactly(
            process, {key: [parts[process.rank]] for key, parts in case.items()}, curves=True, round_bytes=round_bytes
        )
        found[name] = (ranked, collectives, list(dealt_in))
    return found


@pytest.mark.slow_cases("3")
@pytest.mark.parametrize("ranks", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_have_the_digits_of_one(ranks: int, forked: Any) -> None:
    several = cases(ranks)
    expected = {name: whole(case) for name, case in several.items()}
    for round_bytes in (1 << 24, 16 * ranks * 50):
        answers = forked(ranks, rank_all, several, round_bytes)
        for answer in answers:
            for name, (ranked, collectives, rounds) in answer.items():
                assert ranked == expected[name], name
                assert collectives == 4 + len(rounds)
                assert all(sent <= round_bytes for sent in rounds)
                assert {len(other[name][2]) for other in answers} == {len(rounds)}
        longest = max(len(rounds) for _, _, rounds in answers[0].values())
        assert (longest == 1) == (round_bytes == 1 << 24)


def test_it_agrees_with_scikit_learn(forked: Any) -> None:
    random = np.random.default_rng(0)
    scores = np.round(random.random(5000), 3)
    positive = random.random(5000) < scores
    parts = dealt(scores, positive, 3, random)
    for answer in forked(3, rank_all, {"one": {"a": parts}}, 1 << 24):
        ranked = answer["one"][0]["a"]
        pairs = ranked.num_positives * ranked.num_negatives
        assert ranked.twice_wins / (2 * pairs) == pytest.approx(roc_auc_score(positive, scores), rel=1e-12)
        average = ranked.precision_sum / ranked.num_positives
        assert average == pytest.approx(average_precision_score(positive, scores), rel=1e-12)


def fail(process: Process, wrong: float) -> str:
    own = Ranking(np.array([0.5, wrong if process.rank == 1 else 0.25]), np.array([True, False]))
    with pytest.raises(InputError) as caught:
        rank_exactly(process, {"a": [own]})
    return str(caught.value)


def test_a_bad_score_stops_all_ranks(forked: Any) -> None:
    first, *others = forked(3, fail, float("nan"))
    assert "score of rank 1 is not finite" in first and others == [first, first]


NUM_SAMPLES, ROUND = 200_000, 1 << 18


def measure(process: Process, order: str) -> tuple[int, int, int]:
    """The most memory at once, and how many entries were sent and came."""
    random = np.random.default_rng(process.rank)
    scores = random.random(NUM_SAMPLES)
    if order == "sorted":
        scores = (scores + process.rank) / process.world_size
    own = Ranking(scores, random.random(NUM_SAMPLES) < 0.5)
    moved = np.zeros(2, int)
    deal = dist.all_to_all_single

    def watched(came: torch.Tensor, sent: torch.Tensor, *splits: Any, **more: Any) -> None:
        moved[:] += len(came), len(sent)
        deal(came, sent, *splits, **more)

    dist.all_to_all_single = watched  # type: ignore[assignment]  (a forked process of its own)
    tracemalloc.start()
    rank_exactly(process, {"a": [own]}, round_bytes=ROUND)
    return tracemalloc.get_traced_memory()[1], int(moved[0]), int(moved[1])


@pytest.mark.slow_cases("sorted")
@pytest.mark.parametrize("order", ["random", "sorted"])
def test_memory_is_bounded(order: str, forked: Any) -> None:
    ranks = 3
    for peak, came, sent in forked(ranks, measure, order):
        entries = ranks * NUM_SAMPLES
        assert sent == NUM_SAMPLES
        assert abs(came - entries / ranks) <= entries / 32 + 2 * ranks + 64
        # What was given (9 bytes a sample) was there before.
        assert peak <= 16 * NUM_SAMPLES + 2 * ROUND + 100 * came + 24 * ranks**2 + 100_000
