"""Several workers begin with the files that take longest."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_long.TestClass" name="one" time="1.6"/>
<testcase classname="tests.unit.test_long" name="two" time="2.1"/>
<testcase classname="tests.unit.test_short" name="three" time="1.9"/>
<testcase classname="tests.unit.test_gone" name="four" time="99"/>
<testcase name="five"/>
</testsuite></testsuites>"""


def test_the_weights_are_the_seconds_of_files_that_are_there(tmp_path: Path) -> None:
    for name in ("long", "short"):
        file = tmp_path / f"tests/unit/test_{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "quick.xml").write_text(REPORT)
    (tmp_path / "slow.xml").write_text(REPORT.replace("1.6", "3"))
    weights = runpy.run_path(str(ROOT / ".ci/weights.py"))["weights"]
    assert weights([tmp_path / "quick.xml"], tmp_path) == {"tests/unit/test_long.py": 4}
    assert weights([tmp_path / "quick.xml", tmp_path / "slow.xml"], tmp_path) == {"tests/unit/test_long.py": 5}


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights",
    [
        '{"tests/test_b.py": 5, "tests/test_c.py": 9, "tests/test_gone.py": 99}',
        None,
    ],
)
def test_files_are_handed_out_by_weight(tmp_path: Path, weights: str | None) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tests / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    for name in "abcd":
        (tests / f"test_{name}.py").write_text("def test_one():\n    pass\n\ndef test_two():\n    pass\n")
    if weights:
        (tests / "weights.json").write_text(weights)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n1", "--dist", "loadfile", "--no-loadscope-reorder", str(tests)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    shown = [line.rpartition("test_")[0] for line in done.stdout.splitlines() if " PASSED " in line]
    order = [line.partition("tests/test_")[2][0] for line in shown]
    assert "".join(order) == ("ccbbaadd" if weights else "aabbccdd")


def test_the_weights_have_the_form_that_is_read() -> None:
    weights = json.loads((ROOT / "tests/weights.json").read_text())
    assert weights and all(path.startswith("tests/") and seconds > 1 for path, seconds in weights.items())
