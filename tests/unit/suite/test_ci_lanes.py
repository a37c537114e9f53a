""".ci/lanes.py: jobs on lanes, the longest first; one that fails is told and stops no other."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

CI = Path(__file__).parents[3] / ".ci"


@pytest.fixture(scope="module")
def lanes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_lanes", CI / "lanes.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def noting(folder: Path, name: str, then: str = "true") -> str:
    return f"echo {name} >> {folder}/order; {then}"


def order(folder: Path) -> list[str]:
    return (folder / "order").read_text().split()


def test_the_longest_jobs_come_first_and_the_exclusive_one_last(lanes: ModuleType, tmp_path: Path) -> None:
    jobs = [
        lanes.Job("alone", noting(tmp_path, "alone"), 900, alone=True),
        lanes.Job("short", noting(tmp_path, "short"), 1),
        lanes.Job("long", noting(tmp_path, "long"), 50),
        lanes.Job("first", noting(tmp_path, "first"), 0),
        lanes.Job("after", noting(tmp_path, "after"), 99, ("first",)),
    ]
    results = lanes.run(jobs, 1, tmp_path / "logs")
    assert order(tmp_path) == ["long", "short", "first", "after", "alone"]
    assert [code for code, _ in results.values()] == [0] * 5
    assert (tmp_path / "logs" / "long.log").read_text() == ""


def test_two_run_at_a_time_and_one_aside(lanes: ModuleType, tmp_path: Path) -> None:
    """Each of three waits for the two others: on two lanes and aside they meet, and two asides would not."""
    meet = "touch {0}/{1}; for f in a b aside; do until test -e {0}/$f; do sleep 0.01; done; done"
    jobs = [
        lanes.Job("a", meet.format(tmp_path, "a")),
        lanes.Job("b", meet.format(tmp_path, "b")),
        lanes.Job("aside", meet.format(tmp_path, "aside") + f"; test ! -e {tmp_path}/second", aside=True),
        lanes.Job("second", f"touch {tmp_path}/second", aside=True),
    ]
    assert [code for code, _ in lanes.run(jobs, 2, tmp_path / "logs").values()] == [0] * 4


def test_a_failed_job_is_shown_in_full_and_blocks_only_its_dependents(
    lanes: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [
        lanes.Job("bad", "seq 1 100; false; echo never", 9),
        lanes.Job("needs-bad", noting(tmp_path, "needs-bad"), 0, ("bad",)),
        lanes.Job("needs-that", noting(tmp_path, "needs-that"), 0, ("needs-bad",)),
        lanes.Job("good", noting(tmp_path, "good", "seq 201 300"), 1),
    ]
    results = lanes.run(jobs, 1, tmp_path / "logs")
    assert [code for code, _ in results.values()] == [1, None, None, 0]
    assert order(tmp_path) == ["good"]
    printed = capsys.readouterr().out
    assert "bad FAILED with exit code 1" in printed and "    1\n    2\n" in printed and "    never\n" not in printed
    assert "needs-bad was not started" in printed and "needs-that was not started" in printed
    assert "    300\n" in printed and "    275\n" not in printed and "75 lines before these" in printed


@pytest.mark.parametrize(
    ("needs", "text"), [({"a": ("b",)}, "no job is called"), ({"a": ("c",), "c": ("a",)}, "need each other: a, c")]
)
def test_jobs_that_can_never_start_are_an_error(
    needs: dict[str, tuple[str, ...]], text: str, lanes: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=text):
        lanes.run([lanes.Job(name, "true", 0, each) for name, each in needs.items()], 2, tmp_path / "logs")


def test_started_processes_end_with_the_runner(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import lanes; from pathlib import Path\n"
        "lanes.run([lanes.Job('a', 'echo $$ > pid.new; mv pid.new pid; sleep 600 & wait')], 1, Path('logs'))"
    )
    with subprocess.Popen([sys.executable, "-c", program, CI], cwd=tmp_path, stdout=subprocess.PIPE) as started:
        assert started.stdout
        started.stdout.readline()
        while not (tmp_path / "pid").exists():
            assert started.poll() is None
        job = os.pidfd_open(int((tmp_path / "pid").read_text()))
        started.terminate()
        assert started.wait(60) == 128 + signal.SIGTERM
    with open(job, "rb", buffering=0) as ended:  # becomes readable when the process has ended
        assert select.select([ended], [], [], 60)[0]


def test_exit_code_and_table_show_a_failure(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from lanes import Job, main\n"
        "sys.exit(main([Job('good', 'true'), Job('bad', 'exit 3'), Job('lost', 'true', 0, ('bad',))]))"
    )
    done = subprocess.run([sys.executable, "-c", program, CI], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    table = [line.split() for line in done.stdout.splitlines()[-4:]]
    assert [line[0] for line in table] == ["good", "bad", "lost", "in"]
    assert table[1][2:] == ["FAILED", "(3)"] and table[2][2:] == ["not", "started"] and len(table[0]) == 2


def commands_of(jobs: str) -> dict[str, str]:
    """By name, those of the jobs of a file that call make."""
    program = (
        f"import sys; sys.path.insert(0, sys.argv[1]); from {jobs} import JOBS; "
        "[print(each.name, each.command) for each in JOBS]"
    )
    done = subprocess.run([sys.executable, "-c", program, CI], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " make " in line)


def test_every_family_of_tests_is_a_job_and_its_report_is_counted() -> None:
    makefile = (CI.parent / "Makefile").read_text()
    verbs = {line.split(":")[0] for line in makefile.splitlines() if line.startswith("test")}
    environments = re.search(r"^ENVIRONMENTS = (.*)$", makefile, re.MULTILINE)
    assert environments
    wanted = {*verbs - {"test-in"}, *(f"test-in ENV={name}" for name in environments[1].split())}
    commands = commands_of("jobs")
    made, at_night = (
        {" ".join(re.findall(r"^test\S*|ENV=\S+", command.removeprefix("make "))) for command in found.values()} - {""}
        for found in (commands, commands_of("nightly"))
    )
    assert wanted - made == {"test-nightly", "test-changed", "test-in ENV=spark35"}
    assert wanted - made - at_night == {"test-nightly", "test-changed"}
    assert made | at_night <= wanted
    assert all(f"build/tests/{name}.xml" in commands[name] for name in commands if name.startswith("test"))
    assert {"check", "run", "faults", "bench"} <= commands.keys()
