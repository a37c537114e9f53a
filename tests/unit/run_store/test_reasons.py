"""A reason in a line: which rank, what happened, and paths that the user has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drivetrain.cli.outcome import remark
from drivetrain.run_store import reasons
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reasons import failing_rank, in_a_line, is_bad_input, known_paths
from drivetrain.targets.sagemaker.run.jobs.bounded_matching import Matcher

RANK = "rank 1 of 2 on algo-1 failed: ValueError: bad"
HANG = "rank 3 of 4 on algo-2 hangs: it did not come to a collective before the others timed out"
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: bad\n  in shard 3'


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (f"{RANK}\n{TRACEBACK}", RANK),
        (f"host 127.0.0.2: {RANK}\n{TRACEBACK}", RANK),
        (f'{HANG}\nIt was here (most recent call first):\n  File "train.py", line 3 in g', HANG),
        ("rank 0 of 2 on algo-1 failed: it ended with exit code 3\nTraceback\nSystemExit: 3",
         "rank 0 of 2 on algo-1 failed: it ended with exit code 3"),
        (TRACEBACK, "ValueError: bad"),
        ("rank 1 is nice\nOSError: gone", "OSError: gone"),
        ("host 127.0.0.1: error: no recipe", "error: no recipe"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_reason_is_the_line_of_the_exception(reason: str, line: str) -> None:
    assert in_a_line(reason) == line


def test_only_the_first_line_names_a_rank() -> None:
    assert failing_rank(f"lost\n{RANK}") is None and failing_rank(None) is None
    assert failing_rank(f"{RANK}\nmore") == RANK


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("error: x", True), ("host 127.0.0.2: error: x", True), (RANK, False), ("an error: x", False), (None, False)],
)
def test_bad_input_on_one_host_or_several(reason: str | None, expected: bool) -> None:
    assert is_bad_input(reason) is expected


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("/opt/ml/input/data/train/part-00000.parquet is missing", "train/part-00000.parquet is missing"),
        ("no label in '/opt/ml/processing/input/raw/a.csv'", "no label in 'raw/a.csv'"),
        ("/home/me/.drivetrain/runs/1/t/attempt-1/hosts/127.0.0.2/input/data/train: empty", "train: empty"),
        ("'faces' (/tmp/drivetrain-61e/drivetrain-code-1f/code/source/my/faces.py)", "'faces' (my/faces.py)"),
        ("(/tmp/d-6/drivetrain-code-1f/code/drivetrain/recipes/a.py)", "(drivetrain/recipes/a.py)"),
        ("/home/me/code/source/a.py and s3://b/opt/ml/input/data/x", "/home/me/code/source/a.py and s3://b/opt/ml/input/data/x"),
        ("/opt/ml/input/data/", "/opt/ml/input/data/"),
        (f"/opt/ml/checkpoints/{'7f' * 32}-071a63d5e4087681/step-00000010 is torn", "step-00000010 is torn"),
        ("What was saved is in /opt/ml/checkpoints. Go on", "What was saved is in the training's checkpoints. Go on"),
        (f"/opt/ml/checkpoints/{'7f' * 40}: locked", "the training's checkpoints: locked"),
    ],
)  # fmt: skip
def test_reasons_show_the_paths_of_the_user(told: str, shown: str) -> None:
    assert known_paths(told) == shown


def test_the_reason_to_run_is_not_the_reason_of_the_failure() -> None:
    step = StepRun(
        name="train",
        type="Training",
        title="train",
        status="Failed",
        reason="error: epochs is 0",
        why=("epochs 1 -> 0",),
    )
    assert remark(step) == "error: epochs is 0"
    sentence = replace(step, reason="error: it is none. Give one.", value="starts from nothing (a new training)")
    assert remark(sentence) == "error: it is none. Give one; starts from nothing (a new training)"
    done = StepRun(name="train", type="Training", title="train", status="Succeeded", why=("epochs 1 -> 2",))
    assert remark(done) == "epochs 1 -> 2"


@pytest.mark.parametrize(
    "piece", ["/", "/a", ":/", "/hosts/127.0.0.1", "/drivetrain-code-1", "/checkpoints/" + "f" * 40]
)
@pytest.mark.parametrize("name", ["_HOST", "_RANK", "_CHANNEL", "_CHECKPOINT", "_CHECKPOINTS", "_CODE"])
def test_a_long_line_takes_linear_time(name: str, piece: str) -> None:
    """It would take minutes, and the matcher is ended, with no value, after two seconds of CPU time."""
    matcher = Matcher()
    try:
        assert matcher.values(getattr(reasons, name).pattern, [piece * (100_000 // len(piece))]) == []
    finally:
        matcher.close()


def test_a_path_after_a_sign_is_known() -> None:
    home = "/home/me/.drivetrain/runs/1/t/attempt-1/hosts/127.0.0.2"
    assert known_paths(f"path={home}/input/data/train/a.csv") == "path=train/a.csv"
    assert known_paths(f"a.py:{home}/input/data/b, [{home}/input/data/c]") == "a.py:b, [c]"
