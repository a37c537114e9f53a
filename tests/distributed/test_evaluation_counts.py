"""What is counted: bit-identical from any number of ranks, in one collective, and one more for replicates; an error of
one rank is that of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric_states.coverage import CoverageError
from drivetrain.training.metric_states.result import Evaluation
from drivetrain.training.process import Process
from tests.fixtures.evaluated_samples import KINDS, Given, accumulator, comparable, evaluated, samples, taken

COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "reduce",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "scatter",
    "reduce_scatter_tensor",
    "barrier",
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
)


def counted(calls: list[str]) -> None:
    """Note each call of a collective (in a forked rank only)."""

    def noting(name: str, real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*args, **named)

        return call

    for name in COLLECTIVES:
        setattr(dist, name, noting(name, getattr(dist, name)))


def evaluate_each(process: Process, cases: list[Given]) -> list[tuple[Evaluation, list[str]]]:
    """Each evaluation, and the collectives that it took."""
    calls: list[str] = []
    counted(calls)
    found = []
    for case in cases:
        calls.clear()
        found.append((evaluated(process, case), list(calls)))
    return found


cases = st.builds(
    Given,
    kind=st.sampled_from(KINDS),
    num_rows=st.integers(0, 3 * 4 + 1) | st.integers(14, 60),
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    sliced=st.booleans(),
    replicates=st.sampled_from([0, 0, 3]),
    exact=st.booleans(),
)


@pytest.mark.parametrize("world_size", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (3, 4))])
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(cases, min_size=20, max_size=20))
def test_any_number_of_ranks_counts_the_same_bits(world_size: int, forked: Any, given_cases: list[Given]) -> None:
    (alone,) = forked(1, evaluate_each, given_cases)
    assert [result.num_samples for result, _ in alone] == [case.num_rows for case in given_cases]
    assert all(calls == [] and result.collectives == 0 for result, calls in alone)
    for rank, results in enumerate(forked(world_size, evaluate_each, given_cases)):
        for case, (expected, _), (found, calls) in zip(given_cases, alone, results, strict=True):
            # The first rank alone has what the rows say, and writes it.
            assert comparable(found) == comparable(replace(expected, rows=None) if rank else expected), case
            # What rows say goes to the first rank beside the replicates.
            met = [call for call in calls if call not in ("isend", "irecv")]
            assert found.collectives == len(met)
            assert case.replicates or met == calls
            if not case.exact or case.kind not in ("binary", "multiclass", "multilabel"):
                assert met == ["all_reduce"] * (2 if case.replicates else 1)


def fail(process: Process, case: Given, failing: dict[int, str], lost: int | None) -> str:
    """What an evaluation says on this rank. `failing`: rank -> what is wrong there."""
    counting = accumulator(process, case)
    found, columns = samples(case)
    for start in range(0, case.num_rows, case.batch_size)[process.rank :: process.world_size]:
        rows = np.arange(start, min(start + case.batch_size, case.num_rows))
        batch, given = taken(found, columns, rows)
        wrong = failing.get(process.rank)
        if wrong == "target":
            assert batch.targets is not None
            batch = replace(batch, targets=batch.targets + 7)
        elif wrong == "site":
            given["site"][:] = "east"
        elif wrong:
            counting.fail(wrong)
        if lost not in rows:
            counting.update(rows, batch, given)
    try:
        counting.finish()
    except (InputError, CoverageError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


CASE = Given("multiclass", 23, batch_size=4, sliced=True, replicates=2)


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        ({1: "target"}, "InputError: rank 1 of 3: rows 4 to 7, counted from 0: a target is"),
        (
            {2: "site"},
            "InputError: rank 2 of 3: row 8, counted from 0: column 'site' is to be sliced by, and has 'east'",
        ),
        ({0: "torn", 2: "other"}, "InputError: rank 0 of 3: torn\nrank 2 of 3: other"),
        ({0: "torn", 1: "torn", 2: "torn"}, "InputError: torn"),
        ({2: "x" * 2000}, "InputError: rank 2 of 3: " + "x" * 1021 + "…"),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_an_error_of_one_rank_is_raised_on_all(pooled: Any, failing: dict[int, str], message: str, exact: bool) -> None:
    said = pooled(3, fail, replace(CASE, exact=exact), failing, None)
    assert said[0] == said[1] == said[2]
    assert said[0].startswith(message)


def test_an_uncounted_row_is_an_error(pooled: Any) -> None:
    said = pooled(3, fail, CASE, {}, 9)
    assert said[0].startswith("CoverageError: 19 rows were counted of 23: 4 are missing")
    assert said[0] == said[1] == said[2]
