"""Inputs that lie in S3, read with the caller's credentials (`run --read-s3`)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.jobs.s3_inputs import S3Inputs
from tests.fixtures.local_runs import LocalRuns
from tests.fixtures.s3_server import environment
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

PROGRAM = """
    from pathlib import Path

    data = Path("/opt/ml/processing/input/data")
    found = {str(path.relative_to(data)): path.read_text() for path in data.rglob("*") if path.is_file()}
    expected = EXPECTED
    assert found == expected, found
"""


@pytest.fixture
def account() -> Generator[TestAccount]:
    with sagemaker_service().account() as made:
        yield made


@pytest.fixture
def bucket(account: TestAccount) -> str:
    name = account.make_bucket()
    for key, content in {"in/a.csv": b"1", "in/deep/b.csv": b"22", "in_too.csv": b"3", "in/": b""}.items():
        account.client("s3").put_object(Bucket=name, Key=key, Body=content)
    return name


def reading(runs: LocalRuns, uri: str, expected: dict[str, str], name: str = "read") -> dict[str, Any]:
    return runs.processing(name, PROGRAM.replace("EXPECTED", repr(expected)), inputs={"data": uri})


def test_a_run_reads_what_lies_in_s3_and_says_what_it_copies(
    runs: LocalRuns, account: TestAccount, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    step = reading(runs, f"s3://{bucket}/in/", {"a.csv": "1", "deep/b.csv": "22"})
    with pytest.raises(UserError, match="nothing is there on this machine"):
        runs.start([step])
    for said in ("copies 2 objects, 3 B", "", "copies 1 object, 3 B"):
        if "1 object" in said:
            account.client("s3").put_object(Bucket=bucket, Key="in/a.csv", Body=b"new")
            step = reading(runs, f"s3://{bucket}/in/", {"a.csv": "new", "deep/b.csv": "22"})
        summary = runs.start([step], read_s3=True)
        assert summary.status == "Succeeded", summary.reason
        told = capsys.readouterr().err
        assert ("S3: copies" in told) is bool(said) and said in told
        assert told.count("NoSuchBucket") == 1, "the code's bucket is there in this home alone"
        if said:
            assert f"from s3://{bucket} as arn:aws:" in told
            assert f"(account {account.number}, region us-east-1)" in told
    assert "1 other of the cache" in told
    wider = reading(runs, f"s3://{bucket}/in", {"a.csv": "new", "deep/b.csv": "22", "in_too.csv": "3"}, "wider")
    summary = runs.start([wider, step], read_s3=True)
    assert summary.status == "Succeeded", "a prefix without a slash is read as on S3"
    assert not (runs.home.objects / bucket).exists()


def test_local_data_and_what_a_step_writes_come_before_s3(
    runs: LocalRuns, account: TestAccount, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.csv").write_text("mine")
    own = reading(runs, f"s3://{bucket}/in/", {"x.csv": "mine"})
    write = runs.processing("write", "open('/opt/ml/processing/output/out/y.csv', 'w').write('ours')", outputs=["out"])
    write["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = f"s3://{bucket}/gone/out"
    after = runs.processing(
        "after", PROGRAM.replace("EXPECTED", "{'y.csv': 'ours'}"), inputs={"data": f"s3://{bucket}/gone/out/"}
    )
    after["DependsOn"] = ["write"]
    summary = runs.start([own, write, after], data={f"s3://{bucket}/in": str(tmp_path / "mine")}, read_s3=True)
    assert summary.status == "Succeeded", summary.reason
    keys = [entry["Key"] for entry in account.client("s3").list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["in/", "in/a.csv", "in/deep/b.csv", "in_too.csv"], "nothing is written to S3"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://BUCKET/none/", "nothing is there on this machine"),
        ("s3://no-such-BUCKET/in/", r"NoSuchBucket.*s3:ListBucket, s3:GetObject"),
    ],
)
def test_unreadable_inputs_are_reported_before_the_start(runs: LocalRuns, bucket: str, uri: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        runs.start([reading(runs, uri.replace("BUCKET", bucket), {})], read_s3=True)
    assert "\n" not in str(refused.value)


def test_no_credentials_are_one_line(runs: LocalRuns, account: TestAccount, bucket: str) -> None:
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": ""}
    with environment(none), pytest.raises(UserError, match="no access to S3 as this machine is set up") as refused:
        runs.start([reading(runs, f"s3://{bucket}/in/", {})], read_s3=True)
    assert "\n" not in str(refused.value)


def test_keys_that_no_disk_can_hold_are_refused(account: TestAccount, bucket: str, tmp_path: Path) -> None:
    inputs, client = S3Inputs(tmp_path / "cache", ObjectStore(tmp_path / "s3"), {}, print), account.client("s3")
    for key in ("twice/a//b", "twice/a/b", "both/x", "both/x/y"):
        client.put_object(Bucket=bucket, Key=key, Body=b"1")
    with pytest.raises(UserError, match="would be one file here"):
        inputs.has(f"s3://{bucket}/twice/", False)
    assert inputs.has(f"s3://{bucket}/both/", False)
    with pytest.raises(UserError, match="a file where another key needs a folder"):
        inputs.bring()


def test_an_object_that_is_replaced_meanwhile_is_not_mixed(account: TestAccount, bucket: str, tmp_path: Path) -> None:
    inputs = S3Inputs(tmp_path / "cache", ObjectStore(tmp_path / "s3"), {}, print)
    assert inputs.has(f"s3://{bucket}/in/", False)
    account.client("s3").put_object(Bucket=bucket, Key="in/a.csv", Body=b"9")
    with pytest.raises(UserError, match=r"in/a\.csv changed while it was copied"):
        inputs.bring()


def test_a_resumed_run_reads_its_original_inputs(runs: LocalRuns, account: TestAccount, bucket: str) -> None:
    step = reading(runs, f"s3://{bucket}/in/", {"a.csv": "1", "deep/b.csv": "22"})
    fail = {**runs.processing("fail", "import sys; sys.exit(1)"), "DependsOn": ["read"]}
    after = {**reading(runs, f"s3://{bucket}/in/", {"a.csv": "1", "deep/b.csv": "22"}, "after"), "DependsOn": ["fail"]}
    assert runs.start([step, fail, after], read_s3=True).status == "Failed"
    account.client("s3").put_object(Bucket=bucket, Key="in/a.csv", Body=b"9")
    runs.put("code/fail/fail.py", "")
    with environment({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}):  # nobody is asked
        summary = runs.resume()
    assert summary.status == "Succeeded", summary.reason
