"""What the page says of a training's health, from a file that anybody may have written."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drivetrain.telling.content import health
from drivetrain.telling.content.health import MAX_FINDINGS, MAX_RANKS, HealthFacts, facts_of, health_of
from drivetrain.telling.page.health_section import draw as health_section
from drivetrain.training.health.record import PHASES, Table
from drivetrain.training.health.summary import MOST_STRETCHES, Timeline

FINDING = {"rule": "slow_input", "step": 3, "action": "warn", "text": "it <waits>", "advice": "Do.", "times": 2}
ARGUMENTS = {"OutputDataConfig": {"S3OutputPath": "s3://bucket/out"}}


def told(**more: Any) -> dict[str, Any]:
    phases = {"forward": [0.5, 0.25], "data": [0.5, 0.75], "save": [0, 0]}
    timeline = {"seconds": [10.0, 30.0], "busy": [[0.5, 0.25], [1.0, 1.0]], "phases": phases}
    return {"healthy": True, "rules": {"slow_input": "warn"}, "findings": [FINDING], "timeline": timeline, **more}


def test_every_part_of_the_health_report_is_shown() -> None:
    facts = facts_of("train", told(verdict="input pipeline bound: 41% of the step waits for data"))
    assert facts is not None and facts.healthy and [one.rule for one in facts.findings] == ["slow_input"]
    assert set(facts.phases) == {"forward", "data"}
    page = str(health_section((facts,)))
    assert "They watched: slow_input." in page
    assert "Healthy, with warnings. </b>None of 1 rules failed the training, 1 warned." in page
    assert "input pipeline bound" in page
    assert "it &lt;waits&gt;" in page and "<waits>" not in page
    assert "rank 1: computes in 100" in page and "data: 75" in page
    assert "Host 0" not in page and "Slowest ranks" not in page
    # A second stretch is three times as wide.
    assert page.count('class="busy"') == 4


def test_hosts_and_slow_ranks_are_shown_where_they_are_known() -> None:
    slow = [{"rank": 1, "seconds": 0.013, "to_median": 1.3}, {"rank": 0, "seconds": 0.01, "to_median": 1}, {"rank": 2}]
    facts = facts_of("train", told(stragglers=slow, hosts=["CPU 93%; <b>"]))
    assert facts is not None and [one.rank for one in facts.stragglers] == [1, 0]
    page = str(health_section((facts,)))
    assert "rank 1</th>" in page and "13 ms" in page and "+30.0%" in page
    assert "Host 0. </b>CPU 93%; &lt;b&gt;" in page


def test_operators_of_a_profile_are_shown() -> None:
    rows = [{"name": "aten::<mm>", "ms": 1234.5, "share": 0.6, "calls": 7}, {"name": "no time"}, 3]
    facts = facts_of("train", told(), {"steps": 4, "operators": rows})
    assert facts is not None and [(one.name, one.calls) for one in facts.operators] == [("aten::<mm>", 7)]
    page = str(health_section((facts,)))
    assert "Longest operators of 4 steps of rank 0" in page and "aten::&lt;mm&gt;" in page and "1,234.50 ms" in page
    bare = facts_of("train", told(), {"steps": 4, "operators": {}})
    assert bare is not None and "Longest operators" not in str(health_section((bare,)))


@pytest.mark.parametrize("given", [{}, [], None, 3, {"healthy": "yes"}, {"healthy": 1}])
def test_foreign_health_files_are_ignored(given: Any) -> None:
    assert facts_of("train", given) is None


def test_damaged_or_endless_files_are_read_within_bounds() -> None:
    many = told(
        findings=[FINDING] * 1_000,
        timeline={
            "seconds": [1.0, 1e400, None],
            "busy": [[1, 2]] * 5_000,
            "phases": {"data": "x", "save": [1, 2, 3, 4]},
        },
    )
    facts = facts_of("train", many)
    assert facts is not None and len(facts.findings) == MAX_FINDINGS
    assert facts.busy == () and facts.phases == {}
    facts = facts_of("train", told(timeline={"seconds": [1.0], "busy": [[1.0]] * 5_000, "phases": {}}))
    assert facts is not None and len(facts.busy) == MAX_RANKS
    assert health_section((facts,))


@pytest.mark.parametrize("packed", [True, False])
def test_the_health_report_is_found_in_the_training_output(packed: bool, tmp_path: Path) -> None:
    home: Any = SimpleNamespace(objects=tmp_path)
    content = json.dumps(told()).encode()
    place = tmp_path / "bucket/out/job/output"
    place.mkdir(parents=True)
    arguments: dict[str, Any] = ARGUMENTS
    if packed:
        with tarfile.open(place / "output.tar.gz", "w:gz") as archive:
            for name in ("a.txt", "health/health.json"):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        arguments = {"OutputDataConfig": {**ARGUMENTS["OutputDataConfig"], "CompressionType": "NONE"}}
        (place / "output/health").mkdir(parents=True)
        (place / "output/health/health.json").write_bytes(content)
    facts = health_of(home, "train", arguments, {"TrainingJobName": "job"})
    assert facts is not None and len(facts.rules) == 1
    assert health_of(home, "train", arguments, {"TrainingJobName": "other"}) is None
    assert health_of(home, "train", arguments, {}) is None


SAVED = Path(__file__).parents[3] / "fixtures/smdebug/trial.tar.gz"


def of_trial(home: Path, changed: Callable[[Path], object]) -> HealthFacts | None:
    """Of a training whose script had a hook of smdebug's own."""
    output = home / "tensors"
    with tarfile.open(SAVED) as packed:
        packed.extractall(output, filter="data")
    changed(output)
    place = home / "bucket/out/job/output"
    place.mkdir(parents=True)
    with tarfile.open(place / "output.tar.gz", "w:gz") as archive:
        archive.add(output, "tensors")
    store: Any = SimpleNamespace(objects=home)
    return health_of(store, "train", ARGUMENTS, {"TrainingJobName": "job"})


def test_saved_smdebug_tensors_are_shown(tmp_path: Path) -> None:
    facts = of_trial(tmp_path, lambda folder: None)
    assert facts is not None and facts.healthy is False and [one.rule for one in facts.findings] == ["nan_or_inf"]
    page = str(health_section((facts,)))
    assert "Saved by smdebug: 5 steps (biases 2, gradients 4, losses 1, outputs 1, weights 2)." in page
    assert "1 of 9 rules failed the training." in page and "Phases of a step" not in page


def test_unreadable_smdebug_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = "index/000000000/000000000002_worker_0.json"
    facts = of_trial(
        tmp_path / "damaged", lambda folder: (folder / index).unlink() or (folder / index).write_text("{}")
    )
    assert facts is not None and facts.healthy is None
    page = str(health_section((facts,)))
    assert f"What smdebug saved cannot be read: tensors/{index} is no file of smdebug" in page and "fired" not in page
    monkeypatch.setattr(health, "MAX_TENSORS", 1_000)
    facts = of_trial(tmp_path / "large", lambda folder: None)
    assert facts is not None and "are more than a page reads: drivetrain health show tells" in facts.source


def test_a_broken_archive_is_left_out(tmp_path: Path) -> None:
    place = tmp_path / "bucket/out/job/output"
    place.mkdir(parents=True)
    (place / "output.tar.gz").write_bytes(b"no archive")
    home: Any = SimpleNamespace(objects=tmp_path)
    assert health_of(home, "train", ARGUMENTS, {"TrainingJobName": "job"}) is None


def test_a_shortened_timeline_keeps_the_total_time() -> None:
    timeline, count = Timeline(), 1_000
    for number in range(count):
        columns = {name: np.zeros(2) for name in PHASES}
        columns["forward"], columns["data"] = np.array([1.0, 3.0]), np.array([1.0, 1.0]) * (number >= 500)
        timeline.add(Table(["rank 0", "rank 1"], columns))
    found = timeline.as_json()
    assert 50 <= len(found["seconds"]) <= MOST_STRETCHES
    assert sum(found["seconds"]) == pytest.approx(2.0 * count + 500, rel=1e-3)
    assert [rank[0] for rank in found["busy"]] == [1.0, 1.0] and [rank[-1] for rank in found["busy"]] == [0.5, 0.75]
    assert found["phases"]["data"][0] == 0.0 and found["phases"]["data"][-1] == pytest.approx(1 / 3, abs=1e-3)
