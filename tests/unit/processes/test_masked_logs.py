"""Secrets that a program prints are not in its log once it has ended."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

from drivetrain.base.masking import MASK, SAID, Masking
from drivetrain.cli.main import run
from drivetrain.processes import supervised
from drivetrain.processes.supervised import mask_logs
from tests.fixtures.made_up_secrets import PLACES, leaks, made_up

KEY = "-----BEGIN PRIVATE KEY-----\nabc\ndef\n-----END PRIVATE KEY-----\n"


def test_a_line_without_end_is_masked_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret at every place where it might be cut."""
    monkeypatch.setenv("API_TOKEN", "secret-of-this-process")
    piece = b"rows 0123456789 and secret-of-this-process, "
    (tmp_path / "a.log").write_bytes(piece * 100_000)  # 4.4 MB
    tracemalloc.start()
    try:
        mask_logs(tmp_path, Masking())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "a.log").read_bytes() == piece.replace(b"secret-of-this-process", MASK.encode()) * 100_000
    assert peak < 25e6  # a piece of 1 MiB, and what masks it


def test_a_key_at_the_end_of_a_piece_is_masked_whole(tmp_path: Path) -> None:
    log = tmp_path / "1" / "a.log"
    log.parent.mkdir()
    log.write_bytes(b"one\r\n\xff\n" + KEY.encode() + b"last")
    with mock.patch.object(supervised, "_PIECE", 8):
        mask_logs(tmp_path, Masking())
    assert log.read_bytes() == f"one\r\n\udcff\n{MASK}\nlast".encode("utf-8", "surrogateescape")
    assert log.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.rglob("*.*")] == ["a.log"]


def test_a_log_without_secrets_is_not_written_again(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("nothing\n")
    before = log.stat()
    mask_logs(tmp_path, Masking(["something"]))
    assert log.stat() == before


def written(folder: Path, *programs: str, **environment: str) -> Path:
    """The definition of a pipeline whose steps are programs of Python."""
    definition = folder / "definition.json"
    steps = [
        {"Name": f"work-{number}", "Type": "Processing", "Arguments": arguments(program, environment)}
        for number, program in enumerate(programs)
    ]
    definition.write_text(json.dumps({"Version": "2020-12-01", "Steps": steps}))
    return definition


def arguments(program: str, environment: Mapping[str, str]) -> dict[str, object]:
    return {
        "ProcessingResources": {"ClusterConfig": {"InstanceType": "m", "InstanceCount": 1, "VolumeSizeInGB": 1}},
        "AppSpecification": {"ImageUri": "image", "ContainerEntrypoint": ["python3", "-c", program]},
        "Environment": environment,
        "RoleArn": "arn:aws:iam::000000000000:role/Role",
    }


def test_no_secret_that_a_step_prints_or_raises_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = made_up(7)
    texts = [write(text) for text, _ in secrets.values() for write in PLACES.values()]
    printed = tmp_path / "texts.json"
    printed.write_text(json.dumps(texts))
    read = f"import json; texts = json.load(open({str(printed)!r}))"
    raising = f"{read}; print(*texts, sep='\\n'); raise ValueError(texts)"
    telling = f"{read}; print(*texts, sep='\\n', file=open('/opt/ml/output/failure', 'w')); exit(1)"
    home = tmp_path / "home"
    assert run(["run", "-d", str(written(tmp_path, raising, telling)), "--home", str(home)]) == 1
    kept = {path: path.read_text(errors="replace") for path in home.rglob("*") if path.is_file()}
    assert any(len(text) > 100_000 for text in kept.values()), "the log"
    assert any(path.name == "failure" for path in kept)
    said = "".join(capsys.readouterr())
    lines = [next(line for line in said.splitlines() if f"work-{number}: failed" in line) for number in (0, 1)]
    assert lines[0].endswith(", secrets masked in its log") and lines[1].endswith(", secrets masked in its reason")
    kept |= {Path("output"): said}
    assert [
        (name, path.name) for name, (_, parts) in secrets.items() for path in kept if leaks(kept[path], parts)
    ] == []


def test_stored_run_files_are_private_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "plain-looking-value")
    program = "print('denied: plain-looking-value, ghp_' + 'a1' * 20)"
    definition = written(tmp_path, program, RATE="plain-looking-value")
    home = tmp_path / "home"
    old = os.umask(0o022)
    try:
        assert run(["run", "-d", str(definition), "--home", str(home)]) == 0
    finally:
        os.umask(old)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [home, *home.iterdir(), *home.rglob("*.log")]}
    modes.pop(".gitignore")
    expected = {"home": 0o700, "s3": 0o700, "runs": 0o700, "ledger.db": 0o600, "127.0.0.1.log": 0o600}
    assert {name: modes[name] for name in expected} == expected
    assert next(home.rglob("*.log")).read_text() == f"denied: {MASK}, {MASK}\n{SAID}"
    kept = [path for path in home.rglob("*") if path.is_file() and path.name not in ("definition.json", "request.json")]
    assert not [path for path in kept if b"plain-looking-value" in path.read_bytes()]
    said = capsys.readouterr().out
    assert "plain-looking-value" not in said and "secrets masked in its log" in said
    assert run(["runs", "show", "latest", "--home", str(home)]) == 0
    assert "secrets masked in its log" in capsys.readouterr().out
