"""Deployed runs are found by what people know of them."""

from __future__ import annotations

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.runs import RemoteRun, find

RUNS = [
    RemoteRun(id=id, pipeline="nightly", status="Succeeded", started=0.0, name=name)
    for id, name in (("aaaa1111", "by-hand"), ("aabb2222", None), ("ccdd3333", "twice"), ("ccdd4444", "twice"))
]
LISTED = "Those that are there: drivetrain runs list"


def found(which: str, runs: list[RemoteRun] = RUNS) -> str:
    def newest(limit: int | None) -> list[RemoteRun]:
        return runs[:limit]

    return find(newest, "nightly", which, start="drivetrain start nightly", listed="drivetrain runs list").id


@pytest.mark.parametrize(
    ("which", "id"),
    [
        *[("latest", "aaaa1111"), ("latest~0", "aaaa1111"), ("latest~3", "ccdd4444")],
        *[("aabb2222", "aabb2222"), ("aabb", "aabb2222"), ("by-hand", "aaaa1111")],
    ],
)
def test_a_run_is_found_by_id_beginning_name_or_as_latest(which: str, id: str) -> None:
    assert found(which) == id


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("", "No execution is named. Give the id, the beginning of it, its name, or 'latest'."),
        (" ", "No execution is named. Give the id, the beginning of it, its name, or 'latest'."),
        ("aa", "2 executions of 'nightly' are 'aa': aaaa1111, aabb2222. Give the id."),
        ("twice", "2 executions of 'nightly' are 'twice': ccdd3333, ccdd4444. Give the id."),
        ("by_hand", f"No execution 'by_hand' of 'nightly'. Did you mean 'by-hand'? {LISTED}"),
        ("nowhere", f"No execution 'nowhere' of 'nightly'. {LISTED}"),
        ("latest~4", "No execution 'latest~4': 'nightly' has 4 executions."),
    ],
)
def test_unknown_and_ambiguous_runs_are_refused(which: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        found(which)
    assert str(refused.value) == says


@pytest.mark.parametrize("which", ["latest", "aa"])
def test_a_pipeline_without_runs_says_how_to_start_it(which: str) -> None:
    with pytest.raises(UserError, match=r"'nightly' has not been executed yet\. Start it: drivetrain start nightly"):
        found(which, [])
