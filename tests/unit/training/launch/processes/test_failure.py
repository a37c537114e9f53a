from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.base.errors import BAD_INPUT, FAILED, RETRY
from drivetrain.training.launch.processes.failure import (
    NO_RANK,
    Failure,
    describe,
    exit_code,
    from_rank,
    report_failure,
    root_cause,
    write_failure_file,
)

INPUT = Failure(0, "input", "no column 'x'", when=9.0, exit_code=2)
PROGRAM = Failure(1, "program", "ValueError: boom", "Traceback\nValueError: boom", when=5.0)
LATER = Failure(2, "program", "KeyError: 1", "Traceback\nKeyError: 1", when=6.0)
KILLED = from_rank(3, -signal.SIGKILL, None)
CRASHED = from_rank(4, -signal.SIGSEGV, None)
PEER = Failure(5, "peer", "RuntimeError: Connection closed by peer", "Traceback", when=1.0)
APART = Failure(NO_RANK, "hosts", "DistNetworkError: the client timed out")
STOPPED = from_rank(6, -signal.SIGTERM, None)
AWAY = Failure(7, "away", "S3 did not list s3://b/: given up", when=9.0, exit_code=RETRY)


@pytest.mark.parametrize(
    ("failures", "cause", "code"),
    [
        ([PEER, PROGRAM, LATER, STOPPED], PROGRAM, FAILED),
        ([LATER, PROGRAM], PROGRAM, FAILED),
        ([PEER, KILLED], KILLED, RETRY),
        ([STOPPED, CRASHED], CRASHED, FAILED),
        ([CRASHED, KILLED], CRASHED, FAILED),  # torchrun noticed this one first
        ([KILLED, CRASHED], KILLED, RETRY),
        ([PROGRAM, INPUT], INPUT, BAD_INPUT),
        ([PEER, STOPPED], PEER, RETRY),
        ([STOPPED], STOPPED, RETRY),
        ([APART], APART, RETRY),
        ([PEER, STOPPED, AWAY], AWAY, RETRY),
    ],
)
def test_the_cause_is_distinguished_from_its_consequences(failures: list[Failure], cause: Failure, code: int) -> None:
    found = root_cause(failures)
    assert found is cause
    assert exit_code(found) == code


def test_description_names_the_rank_and_ends_with_the_users_frames() -> None:
    text = describe(PROGRAM, [PEER, PROGRAM, STOPPED], world_size=7, host="algo-2")
    assert text.splitlines() == [
        "rank 1 of 7 on algo-2 failed: ValueError: boom",
        "then rank 5: RuntimeError: Connection closed by peer",
        "Traceback",
        "ValueError: boom",
    ]


def test_bad_input_is_one_line() -> None:
    assert describe(INPUT, [INPUT, PEER], world_size=2, host="h") == "error: no column 'x'"


def test_a_service_that_is_away_is_one_line_without_error() -> None:
    said = "S3 did not list s3://b/: given up. It can be tried again."
    assert describe(AWAY, [AWAY, PEER], world_size=2, host="h") == said


def test_hosts_that_did_not_meet_are_no_ranks_fault() -> None:
    text = describe(APART, [APART], world_size=4, host="algo-2")
    assert text.startswith("algo-2 did not meet the other hosts of the job (DistNetworkError: the client timed out)")


@pytest.mark.parametrize(
    "summary",
    [
        "DistNetworkError: The server socket has failed to listen on any local network address. port: 7777, useIpv6: "
        "false, code: -98, name: EADDRINUSE, message: address already in use",
        "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 7777): address already in use",
    ],
)
def test_a_port_that_simulated_hosts_share_is_named(summary: str) -> None:
    cause = Failure(1, "peer", summary, "Traceback")
    text = describe(cause, [cause], world_size=2, host="127.0.0.2", is_simulated=True)
    assert "listen on port 7777 of all addresses" in text and "lost another process" not in text
    assert "lost another process" in describe(cause, [cause], world_size=2, host="h")


def test_a_failure_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRIVETRAIN_FAILURE_FILE", str(tmp_path))
    write_failure_file("the reason")
    assert capsys.readouterr().err == f"cannot write {tmp_path}: Is a directory\n"


def test_an_end_by_a_signal_names_common_causes() -> None:
    text = describe(KILLED, [KILLED], world_size=4, host="h")
    assert text.startswith("rank 3 of 4 on h failed: it was ended by SIGKILL (often the kernel's out-of-memory killer")


def test_the_report_of_a_users_script_with_torchs_record() -> None:
    record = {"message": {"message": "E: x", "extraInfo": {"py_callstack": "Traceback\n  E: x\n", "timestamp": "17"}}}
    failure = from_rank(1, 1, record)
    assert (failure.kind, failure.summary, failure.details, failure.when) == (
        "program",
        "E: x",
        "Traceback\n  E: x",
        17,
    )


def test_an_exit_without_a_report() -> None:
    assert from_rank(1, 3, None).summary == "it ended with exit code 3 and no report"


def test_the_failure_file_keeps_head_and_end_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "failure"
    monkeypatch.setenv("DRIVETRAIN_FAILURE_FILE", str(path))
    write_failure_file("short")
    assert path.read_text() == "short\n"
    write_failure_file("rank 1 failed\n" + "x" * 5000 + "\nValueError: the end")
    text = path.read_text()
    assert len(text) <= 1024
    assert text.startswith("rank 1 failed\n...")
    assert text.endswith("\nValueError: the end\n")


PROGRAM_TEXT = """
import errno, sys
from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.training.launch.processes.failure import run_rank

def program():
    kind = sys.argv[1]
    if kind == "input":
        raise InputError("mend this")
    if kind == "away":
        raise AwayError("given up after 120 s")
    if kind == "peer":
        raise RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:7")
    if kind == "program":
        deep(20)
    if kind == "full":
        raise OSError(errno.ENOSPC, "No space left on device", "weights")
    if kind == "long":
        raise ValueError("40 columns are missing:" + chr(10) + chr(10).join(f"column {i}" for i in range(40)))
    print("done")

def deep(levels):
    deep(levels - 1) if levels else 1 / 0

run_rank(program)
"""


@pytest.mark.parametrize(
    ("kind", "code"), [("fine", 0), ("input", 2), ("full", 2), ("peer", 1), ("program", 1), ("away", 75), ("long", 1)]
)
def test_a_rank_reports_in_torchelastics_format(kind: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM_TEXT)
    command = [sys.executable, str(tmp_path / "program.py"), kind]
    error_file = tmp_path / "error.json"
    ended = subprocess.run(command, env={"TORCHELASTIC_ERROR_FILE": str(error_file)}, capture_output=True, text=True)
    assert ended.returncode == code
    assert ended.stderr == ""  # the launcher says it once for all ranks
    if kind == "fine":
        assert ended.stdout == "done\n"
        assert not error_file.exists()
        return
    import json

    record = json.loads(error_file.read_text())
    failure = from_rank(0, code, record)
    assert failure.kind == {"full": "input", "long": "program"}.get(kind, kind)
    assert record["message"]["extraInfo"]["py_callstack"]
    assert int(record["message"]["extraInfo"]["timestamp"]) <= failure.when
    if kind == "full":
        assert failure.summary == "no space left to write weights (No space left on device). Free some."
    if kind == "program":
        assert failure.details.splitlines()[-1] == "ZeroDivisionError: division by zero"
        assert len(failure.details.splitlines()) <= 15
    if kind == "long":
        *_, first, second, _, _, _, _, _, left_out = failure.details.splitlines()
        assert (first, second, left_out) == ("ValueError: 40 columns are missing:", "column 0", "  ...")
        return

    alone = subprocess.run(command, env={}, capture_output=True, text=True)
    assert alone.returncode == code
    assert alone.stderr.splitlines()[-1] in (f"error: {failure.summary}", failure.summary)


@pytest.mark.parametrize(
    ("channels", "said"),
    [
        (["SM_CHANNEL_TRAIN", "SM_CHANNEL_TEST"], "The job has SM_CHANNEL_TEST, SM_CHANNEL_TRAIN. "),
        ([], "The job has no channel. "),
    ],
)
def test_a_channel_of_another_name_is_pointed_to_channels(
    channels: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in channels:
        monkeypatch.setenv(name, "/data")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    with pytest.raises(KeyError) as caught:
        os.environ["SM_CHANNEL_TRAINING"]
    report_failure(caught.value)
    failure = from_rank(0, 1, json.loads((tmp_path / "error.json").read_text()))
    assert failure.summary == (
        f"KeyError: 'SM_CHANNEL_TRAINING'. {said}Give an input the name that the script has for it: "
        'channels={"train": "training"}'
    )
