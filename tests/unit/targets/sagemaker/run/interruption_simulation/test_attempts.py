from __future__ import annotations

import json
from pathlib import Path

from drivetrain.targets.sagemaker.run.interruption_simulation.attempts import latest, seen


def write(folder: Path, number: int, **fields: object) -> None:
    path = folder / "attempts" / f"{number:05d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"number": number, **fields}))


def test_the_file_of_this_start_is_the_newest_that_changed(tmp_path: Path) -> None:
    hosts = [tmp_path / "a", tmp_path / "b"]
    write(hosts[0] / "identity", 1, step=10)
    write(hosts[1] / "other", 7, step=99)
    before = seen(hosts)
    assert latest(hosts, before) == {}
    write(hosts[0] / "identity", 2, step=20)
    assert latest(hosts, before) == {"number": 2, "step": 20, "training": "identity"}
    write(hosts[0], 3, step=30)
    assert latest(hosts, before) == {"number": 3, "step": 30, "training": ""}
    write(hosts[0] / ".drivetrain", 4, step=0)  # a launcher's count of starts
    assert latest(hosts, before) == {"number": 3, "step": 30, "training": ""}
    write(hosts[0] / "identity", 1, step=11)
    assert latest(hosts, seen(hosts)) == {}


def test_half_a_file_and_other_things_say_nothing(tmp_path: Path) -> None:
    write(tmp_path, 1, step=5)
    (tmp_path / "attempts" / "00002.json").write_text('{"number": 2, "st')
    (tmp_path / "attempts" / "00003.json").write_text("[1]")
    (tmp_path / "attempts" / "00004.json").mkdir()
    assert latest([tmp_path, tmp_path / "nowhere"], {}) == {"number": 1, "step": 5, "training": ""}
