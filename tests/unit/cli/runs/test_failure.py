from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.cli.runs import failure
from drivetrain.cli.runs.failure import MAX_LINES, end_of_log, failure_block, telling_lines
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import StepRun
from drivetrain.targets.sagemaker.run.jobs.bounded_matching import Matcher
from drivetrain.targets.sagemaker.run.options import Options, Request

SOURCE = "/tmp/drivetrain-1f/drivetrain-code-2a/code/source"
DEEP = f"""\
reading data
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/run.py", line 9, in main
    run()
  File "{SOURCE}/digits.py", line 31, in evaluate
    count(rows)
    ^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/numpy/core.py", line 1, in sum
    fail()
ValueError: too few rows
  in shard 3
"""


def test_the_users_frames_and_the_exception_come_last() -> None:
    assert telling_lines(DEEP) == [
        "Traceback (most recent call last):",
        f'  File "{SOURCE}/digits.py", line 31, in evaluate',
        "    count(rows)",
        "ValueError: too few rows",
        "  in shard 3",
    ]


def test_later_launcher_lines_are_left_out() -> None:
    after = DEEP + (
        "\nE1120 torch.distributed.elastic failed (exitcode: 1)\nTraceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/torch/run.py", line 9, in main\n    run()\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    assert telling_lines(after)[-2:] == ["ValueError: too few rows", "  in shard 3"]


def test_ranks_and_colours_are_removed() -> None:
    ranked = "".join(f"[rank1]: \x1b[31m{line}\x1b[0m\n" for line in DEEP.splitlines())
    assert telling_lines(ranked) == telling_lines(DEEP)


def test_a_deep_traceback_keeps_its_innermost_frames() -> None:
    frames = "".join(f'  File "{SOURCE}/digits.py", line {n}, in f{n}\n    f{n + 1}()\n' for n in range(40))
    lines = telling_lines(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    assert len(lines) <= MAX_LINES
    assert lines[-1] == "RecursionError: too deep" and lines[-2] == "    f40()"


def test_without_a_users_frame_the_end_of_the_log() -> None:
    log = "".join(f"line {n}\n" for n in range(100)) + "\n\n"
    assert telling_lines(log) == [f"line {n}" for n in range(100 - MAX_LINES, 100)]
    assert telling_lines("") == []


def test_a_real_traceback_of_a_real_script(tmp_path: Path) -> None:
    script = tmp_path / "code" / "source" / "clean.py"
    script.parent.mkdir(parents=True)
    script.write_text("import json\n\ndef load(text):\n    return json.loads(text)\n\nload('{')\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "127.0.0.1.log").write_text("started\n" + done.stderr)
    log, lines = end_of_log(tmp_path / "logs", None)
    assert log == tmp_path / "logs" / "127.0.0.1.log"
    assert lines[:2] == ["Traceback (most recent call last):", '  File "clean.py", line 6, in <module>']
    assert lines[-1].startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert not any("decoder.py" in line for line in lines)


def test_the_failed_host_of_two_is_shown(tmp_path: Path) -> None:
    (tmp_path / "127.0.0.1.log").write_text("stopped by the supervisor\n")
    (tmp_path / "127.0.0.2.log").write_text("working\nOSError: no disk\n")
    log, lines = end_of_log(tmp_path, "Traceback\nOSError: no disk")
    assert log is not None and log.name == "127.0.0.2.log"
    assert lines[-1] == "OSError: no disk"


def test_a_step_without_a_log_shows_its_reason(tmp_path: Path) -> None:
    assert end_of_log(tmp_path / "gone", "accuracy 0.5 is below 0.9") == (None, ["accuracy 0.5 is below 0.9"])


def test_only_the_end_of_a_huge_log_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a.log").open("w") as file:
        file.writelines(f"{n:099}\n" for n in range(100_000))
    _, lines = end_of_log(tmp_path, None)
    assert [int(line) for line in lines] == list(range(100_000 - MAX_LINES, 100_000))


def test_the_block_names_the_log_first_and_ends_in_the_exception(tmp_path: Path) -> None:
    home = Home(tmp_path)
    logs = home.logs("e-1", "train", 2)
    logs.mkdir(parents=True)
    (logs / "127.0.0.1.log").write_text(DEEP)
    step = StepRun(name="train", type="Training", title="train", status="Failed", attempts=2, reason="x")
    lines = failure_block(home, "e-1", step).splitlines()
    assert lines[0] == f"✗ train failed after 2 attempts  (log: {logs / '127.0.0.1.log'})"
    assert lines[2] == '  File "digits.py", line 31, in evaluate'
    assert lines[-1] == "  in shard 3"
    assert len(lines) <= 1 + MAX_LINES


def test_bad_input_of_a_step_is_its_message_alone(tmp_path: Path) -> None:
    reason = "error: digits.csv, row 3: label is 'x'. Allowed: 0 to 9."
    step = StepRun(name="prepare", type="Processing", title="prepare", status="Failed", attempts=1, reason=reason)
    assert failure_block(Home(tmp_path), "e-1", step) == f"✗ prepare failed\n{reason}"


RANK = "rank 1 of 2 on 127.0.0.1 failed: ValueError: too few rows"


def test_the_failing_rank_comes_before_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "127.0.0.1.log").write_text(f"{DEEP}\nKeyError: 'of another rank'\n{RANK}\n{DEEP}")
    _, lines = end_of_log(tmp_path, f"{RANK}\n{DEEP}")
    assert lines[:3] == [RANK, "Traceback (most recent call last):", '  File "digits.py", line 31, in evaluate']
    assert lines[-1] == "  in shard 3"


def test_the_traceback_of_another_rank_is_not_attributed_to_the_killed_one(tmp_path: Path) -> None:
    killed = "rank 0 of 2 on 127.0.0.1 failed: it was killed (SIGKILL)"
    (tmp_path / "127.0.0.1.log").write_text(f"{DEEP}step 3\n{killed}\nthen rank 1: ValueError: too few rows\n")
    _, lines = end_of_log(tmp_path, f"{killed}\nthen rank 1: ValueError: too few rows")
    assert lines[0] == killed and lines.count(killed) == 1
    assert lines[-2:] == ["step 3", "then rank 1: ValueError: too few rows"]


def test_without_a_log_the_reason_says_which_rank(tmp_path: Path) -> None:
    _, lines = end_of_log(tmp_path / "gone", f"host 127.0.0.1: {RANK}\n{DEEP}")
    assert lines[0] == RANK and lines[-1] == "  in shard 3"


def test_a_hang_shows_the_users_frames(tmp_path: Path) -> None:
    hangs = "rank 1 of 2 on 127.0.0.1 hangs: it did not come to a collective before the others timed out"
    stack = (
        "It was here (most recent call first):\n"
        f'  File "{SOURCE}/waiting.py", line 11 in wait_for_a_lock\n'
        '  File "/venv/lib/python3.11/site-packages/torch/nn/module.py", line 9 in forward\n'
        '  File "/tmp/drivetrain-1f/drivetrain-code-2a/code/drivetrain/training_scripts/train.py", line 81 in train\n'
    )
    (tmp_path / "127.0.0.1.log").write_text(f"step 1\n{hangs}\n{stack}")
    _, lines = end_of_log(tmp_path, f"{hangs}\n{stack}")
    assert lines == [
        hangs,
        "It was here (most recent call first):",
        '  File "waiting.py", line 11 in wait_for_a_lock',
    ]
    (tmp_path / "127.0.0.1.log").write_text(f"{hangs}\n{stack.replace(SOURCE, '/venv/site-packages')}")
    _, lines = end_of_log(tmp_path, hangs)
    assert [line for line in lines if "/code/drivetrain/" in line] == [] and len(lines) == 4


def test_messages_show_the_paths_of_the_user(tmp_path: Path) -> None:
    code = '    open("/opt/ml/input/data/x/y")'
    own = f'Traceback (most recent call last):\n  File "{SOURCE}/a.py", line 2, in f\n{code}\n'
    (tmp_path / "127.0.0.1.log").write_text(f"{own}OSError: /opt/ml/input/data/x/y is missing\n")
    _, lines = end_of_log(tmp_path, None)
    assert lines[-2:] == [code, "OSError: x/y is missing"]
    reason = f"host 127.0.0.2: error: recipe 'a' cannot be used ({SOURCE}/a.py)."
    step = StepRun(name="train", type="Training", title="train", status="Failed", attempts=1, reason=reason)
    assert failure_block(Home(tmp_path), "e", step) == "✗ train failed\nerror: recipe 'a' cannot be used (a.py)."


def test_secrets_printed_by_a_program_are_not_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    logs = home.logs("e-1", "train", 1)
    logs.mkdir(parents=True)
    (logs / "127.0.0.1.log").write_text("no access with canary-one, canary-two, canary-three or plain-one\n")
    environment = {"DB_PASSWORD": {"Get": "Parameters.Plain"}, "API_TOKEN": "canary-three", "NAME": "plain-one"}
    text = json.dumps({"Steps": [{"Name": "train", "Type": "Training", "Arguments": {"Environment": environment}}]})
    Request(text, {"ApiKey": "canary-one", "Plain": "canary-two"}, Options(pipeline="p")).save(home.run("e-1"))
    step = StepRun(name="train", type="Training", title="train", status="Failed", attempts=1, reason="x")
    assert failure_block(home, "e-1", step).splitlines()[1:] == ["no access with ***, ***, *** or plain-one"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("_ESCAPES", "\x1b]" * 150_000),
        ("_SOURCE", '  File "a.py", line 3 "x' + "/code/source/" * 20_000),
        ("_FRAME", '  File "' + "a" * 300_000),
    ],
)
def test_a_long_line_takes_linear_time(name: str, line: str) -> None:
    """It would take minutes, and the matcher is ended, with no value, after two seconds of CPU time."""
    matcher = Matcher()
    try:
        assert matcher.values(getattr(failure, name).pattern, [line]) == []
    finally:
        matcher.close()
