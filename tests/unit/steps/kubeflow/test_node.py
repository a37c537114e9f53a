"""A node of a TrainJob in this process: objects come as folders, the first node's outputs go back, reasons are kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.aws.s3 import Client, Patience
from drivetrain.steps import START_KUBEFLOW_NODE
from drivetrain.steps.kubeflow import __main__ as program
from drivetrain.steps.kubeflow import node, objects
from drivetrain.steps.kubeflow.__main__ import run
from drivetrain.steps.kubeflow.program import Reporter
from drivetrain.steps.kubeflow.task import COPIES, RetryError, Task, TaskError
from tests.fixtures.s3_server import make_bucket, s3_server, variables

Json = dict[str, Any]
PROGRAM = """
import os, sys
from pathlib import Path
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if words.get("--fail"):
    Path(os.environ["DRIVETRAIN_FAILURE_FILE"]).write_text("rank 0 failed: boom")
    sys.exit(int(words["--fail"]))
rows = sorted(path.read_text() for path in Path(words["--train"]).rglob("*.txt"))
Path(words["--model"], "deep").mkdir()
Path(words["--model"], "deep", "rows.txt").write_text(",".join(rows))
"""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    s3 = variables(s3_server())
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    return make_bucket(s3["AWS_ENDPOINT_URL_S3"])


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A pod's disk, with the program's code."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "fit.py").write_text(PROGRAM)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    (tmp_path / "disk").mkdir()
    for name, value in {
        "DRIVETRAIN_SOURCE": str(source),
        node.MESSAGE_VARIABLE: str(tmp_path / "message"),
        COPIES: "",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }.items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


def given(bucket: str, scheme: str = "s3") -> str:
    inputs = {"train": f"{scheme}://{bucket}/data", "other": f"s3://{bucket}/not-there"}
    return json.dumps(
        {
            "inputs": {"artifacts": {name: {"artifacts": [{"uri": uri}]} for name, uri in inputs.items()}},
            "outputs": {
                "artifacts": {"model": {"artifacts": [{"name": "model", "uri": f"s3://{bucket}/run/fit/model"}]}},
                "outputFile": "/tmp/none",
            },
        }
    )


def main(bucket: str, monkeypatch: pytest.MonkeyPatch, *, rank: int = 0, fail: str = "", scheme: str = "s3") -> int:
    words: list[Any] = [{"option": ["--train", {"input": "train"}]}, {"option": ["--model", {"output": "model"}]}]
    words += [{"option": ["--uri", {"uri": "other"}]}, {"option": ["--fail", fail]}]
    disk = {node.FOLDER_VARIABLE: str(Path(os.environ[node.MESSAGE_VARIABLE]).with_name("disk"))}
    document = {"step": "fit", "program": "script:fit.py", "arguments": words, "outputs": ["model"]}
    document["environment"] = disk
    monkeypatch.setenv("DRIVETRAIN_TASK", json.dumps(document))
    monkeypatch.setenv("PET_NODE_RANK", str(rank))
    return node.main(given(bucket, scheme))


def keys(bucket: str, prefix: str) -> list[str]:
    return [entry["Key"] for entry in Client(bucket).listed(prefix)]


@pytest.mark.parametrize("scheme", ["s3", "minio"])
def test_inputs_are_fetched_and_outputs_of_the_first_node_are_stored(
    bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    for name, text in {"data/a.txt": "a", "data/deep/b.txt": "b", "data-of-others/c.txt": "c"}.items():
        objects.write(f"s3://{bucket}/{name}", text.encode())
    objects.write(f"s3://{bucket}/run/fit/model/stale.txt", b"of an earlier attempt")
    objects.write(f"s3://{bucket}/run/fit/model-card.txt", b"another output")
    targets: list[Path] = []
    fetch = objects.download
    monkeypatch.setattr(objects, "download", lambda uri, target: targets.append(target) or fetch(uri, target))
    assert main(bucket, monkeypatch, scheme=scheme) == 0
    assert [(pod / "disk") in target.parents for target in targets] == [True], "what is read, and nothing else"
    assert keys(bucket, "run/") == ["run/fit/model-card.txt", "run/fit/model/deep/rows.txt"]
    assert objects.read(f"s3://{bucket}/run/fit/model/deep/rows.txt") == b"a,b"
    assert list((pod / "disk").iterdir()) == [], "copies are not left on the node's disk"
    assert (pod / "message").exists() is False


def test_a_single_file_input_is_placed_in_a_folder(bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.write(f"s3://{bucket}/data/rows.txt", b"a")
    told = json.loads(given(bucket))
    told["inputs"]["artifacts"]["train"]["artifacts"][0]["uri"] = f"s3://{bucket}/data/rows.txt"
    monkeypatch.setattr(sys.modules[__name__], "given", lambda bucket, scheme: json.dumps(told))
    assert main(bucket, monkeypatch) == 0
    assert objects.read(f"s3://{bucket}/run/fit/model/deep/rows.txt") == b"a"


def test_outputs_of_other_nodes_are_dropped(bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.write(f"s3://{bucket}/data/a.txt", b"a")
    assert main(bucket, monkeypatch, rank=1) == 0
    assert keys(bucket, "run/") == []


@pytest.mark.parametrize("code", [1, 2, 75])
def test_the_termination_message_has_the_reason(
    bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    assert main(bucket, monkeypatch, fail=str(code)) == code
    assert (pod / "message").read_text() == "rank 0 failed: boom"
    assert keys(bucket, "run/") == []


def test_a_node_evicted_while_fetching_inputs_ends_at_once(
    bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 of a container gets no SIGTERM unless it has a handler, and lasted its whole grace."""
    monkeypatch.setattr(objects, "download", lambda uri, target: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        main(bucket, monkeypatch)
    assert ended.value.code == 143
    assert list((pod / "disk").iterdir()) == []


def test_a_node_evicted_while_fetching_code_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "boto3.py").write_text("import time\nprint('fetching', flush=True)\ntime.sleep(600)\n")
    given = json.dumps({"inputs": {"artifacts": {"code": {"artifacts": [{"uri": "s3://b/code"}]}}}})
    with subprocess.Popen(
        [sys.executable, "-c", START_KUBEFLOW_NODE, "start", "code", given],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
    ) as node_program:
        assert node_program.stdout is not None and node_program.stdout.readline() == b"fetching\n"
        node_program.terminate()
        assert node_program.wait(20) == 143


def test_storage_that_refuses_is_bad_input(pod: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main("no-such-bucket-at-all", monkeypatch) == 2
    message = (pod / "message").read_text()
    assert message.startswith("error: s3://no-such-bucket-at-all/data: ") and "NoSuchBucket" in message


def test_unresponsive_storage_is_retried(pod: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setattr(objects, "PATIENCE", Patience(seconds=0.0))
    assert main(bucket, monkeypatch) == 75
    assert (pod / "message").read_text().startswith(f"error: s3://{bucket}/data: ")
    assert "Connection refused" in (pod / "message").read_text()


def test_unsupported_schemes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"gs://bucket/data has a scheme that nodes .* Allowed: s3, minio"):
        objects.download("gs://bucket/data", tmp_path)


def test_a_failure_of_an_earlier_attempt_is_final(
    bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a cluster, where each attempt has a disk of its own: the reason lies beside the outputs."""
    (tmp_path / "s3").mkdir()
    monkeypatch.setenv(COPIES, str(tmp_path / "s3"))
    failing = {"step": "fit", "program": "script:fit.py", "outputs": ["model"], "arguments": ["--fail", "1"]}

    def attempt(**more: Any) -> int:
        task = Task(given(bucket), json.dumps(failing | more))
        return run(task, Reporter(task))

    assert attempt() == 1
    assert keys(bucket, "run/") == [], "nobody tries again, nothing is kept"
    assert attempt(retries=True) == 1
    with pytest.raises(TaskError, match=r"an earlier attempt failed .* does not change: rank 0 failed: boom"):
        attempt(retries=True, program="script:not-even-there.py")
    assert keys(bucket, "run/") == ["run/fit/drivetrain-failed.json"]


def test_a_retryable_failure_is_not_final(
    bucket: str, pod: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "s3").mkdir()
    monkeypatch.setenv(COPIES, str(tmp_path / "s3"))
    monkeypatch.setattr(program, "PAUSE_S", 0.0)
    document = {"step": "fit", "program": "script:fit.py", "outputs": ["model"], "retries": True}
    for _ in range(2):
        task = Task(given(bucket), json.dumps({**document, "arguments": ["--fail", "75"]}))
        assert run(task, Reporter(task)) == 75
    assert keys(bucket, "run/") == []


def test_storage_errors_say_whether_a_retry_may_help(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setattr(objects, "PATIENCE", Patience(seconds=0.0))
    with pytest.raises(RetryError, match="It can be tried again"):
        objects.upload(_one_file(tmp_path), f"s3://{bucket}/x")


def _one_file(folder: Path) -> Path:
    (folder / "one").mkdir()
    (folder / "one" / "file.txt").write_text("1")
    return folder / "one"
