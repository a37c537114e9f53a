"""`drivetrain list --deployed` against the server that stands for AWS."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import listing
from drivetrain.targets.sagemaker.deploy.deployed import APPLYING
from drivetrain.targets.sagemaker.refusals import AbsentError, DeniedError
from tests.fixtures.sagemaker_service.playing import Playing
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

DEFINITION: dict[str, Any] = {
    "Version": "2020-12-01",
    "Steps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}],
}


@pytest.fixture
def account() -> Generator[TestAccount]:
    with sagemaker_service().account() as account:
        yield account


def by_hand(account: TestAccount, *names: str) -> None:
    """Pipelines that somebody made without drivetrain."""
    for name in names:
        account.client("sagemaker").create_pipeline(
            PipelineName=name,
            PipelineDefinition=json.dumps(DEFINITION),
            RoleArn=f"arn:aws:iam::{account.number}:role/pipelines",
            ClientRequestToken=f"{name:-<32}",
        )


@pytest.fixture
def nightly(drivetrain: Any, account: TestAccount) -> Any:
    """`drivetrain`, after it has deployed `nightly`."""
    given = [
        f"--set=deployment.targets.sagemaker.bucket={account.make_bucket()}",
        f"--set=deployment.targets.sagemaker.role=arn:aws:iam::{account.number}:role/pipelines",
    ]
    drivetrain("apply", "-d", drivetrain.write("nightly.json", DEFINITION), "--yes", *given)
    return drivetrain


def listed(drivetrain: Any, *more: str) -> dict[str, Any]:
    return {each["pipeline"]: each for each in json.loads(drivetrain("list", "--deployed", "--json", *more))}


def test_pipelines_managed_by_aws_are_hidden_and_cannot_be_pulled(
    drivetrain: Any, account: TestAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(account, "mine", "theirs")
    call = Account.call

    def managed(self: Account, service: str, operation: str, **given: Any) -> Any:
        said = call(self, service, operation, **given)
        for each in [said, *said.get("PipelineSummaries", ())]:
            if str(each.get("PipelineArn")).endswith("/theirs"):
                each["PipelineArn"] = "arn:aws:sagemaker:us-east-1:aws:pipeline/theirs"
        return said

    monkeypatch.setattr(Account, "call", managed)
    assert list(listed(drivetrain)) == list(listed(drivetrain, "--limit", "1")) == ["mine"]
    file = drivetrain.write("theirs.json", DEFINITION)
    place = [
        "--set=deployment.targets.sagemaker.bucket=b23",
        f"--set=deployment.targets.sagemaker.role=arn:aws:iam::{account.number}:role/pipelines",
    ]
    assert "'theirs' is managed by AWS" in drivetrain.error("pull", "-d", file, "--adopt", *place)
    assert "'theirs' is managed by AWS" in drivetrain.error("plan", "-d", file, *place)


def test_a_deployed_pipeline_is_imported_by_its_name_or_arn(drivetrain: Any, account: TestAccount) -> None:
    by_hand(account, "reports")
    said = drivetrain("import", "reports")
    assert said.startswith("pipeline 'reports' in us-east-1: 1 step (1 Fail)")
    assert said.endswith("Write it to a file: drivetrain import reports --region us-east-1 -o reports.json\n")
    arn = f"arn:aws:sagemaker:us-east-1:{account.number}:pipeline/reports"
    for given in (["reports", "--region", "us-east-1"], [arn]):
        assert "Run it here: drivetrain run -d got.json" in drivetrain("import", *given, "-o", "got.json")
        assert json.loads((drivetrain.folder / "got.json").read_text()) == DEFINITION
    assert json.loads(drivetrain("import", arn, "--json"))["pipeline_arn"] == arn
    # A file of that name is read, unless a region is given.
    drivetrain.write("reports", {**DEFINITION, "Steps": []})
    assert "0 steps" in drivetrain("import", "reports")
    assert "1 step " in drivetrain("import", "reports", "--region", "us-east-1")
    assert "Did you mean 'reports'?" in drivetrain.error("import", "report")
    assert "--region eu-west-1" in drivetrain.error("import", "reports", "--region", "eu-west-1")
    other = arn.replace(account.number, "210987654321").replace("reports", "others")
    assert "or that account does not share it with" in drivetrain.error("import", other)
    assert "Leave --region out" in drivetrain.error("import", arn, "--region", "eu-west-1")
    assert "is no ARN of a pipeline" in drivetrain.error("import", f"{arn}/execution/x")
    assert "No such file" in drivetrain.error("import", "reports.json")
    assert "is no name of one" in drivetrain.error("import", "reports.json", "--region", "us-east-1")


@pytest.mark.slow
def test_a_listed_pipeline_can_be_adopted_and_applied(drivetrain: Any, account: TestAccount) -> None:
    by_hand(account, "reports")
    place = [
        f"--set=deployment.targets.sagemaker.bucket={account.make_bucket()}",
        f"--set=deployment.targets.sagemaker.role=arn:aws:iam::{account.number}:role/pipelines",
    ]
    assert "Would write reports.json" in drivetrain("pull", "reports", "--adopt", "--dry-run", "--region", "us-east-1")
    said = drivetrain("pull", "reports", "--adopt", *place)
    assert json.loads((drivetrain.folder / "reports.json").read_text()) == DEFINITION
    assert listed(drivetrain)["reports"]["state"] == "not ours"
    assert f"Then: drivetrain apply -d reports.json --set {place[0].removeprefix('--set=')}" in said
    assert "--region is for a pipeline" in drivetrain.error("pull", "reports", "--region", "us-east-1", *place)
    assert "reports.json is there already" in drivetrain.error("pull", "reports", "--adopt", *place)
    drivetrain("apply", "-d", "reports.json", "--yes", *place)
    assert listed(drivetrain)["reports"]["state"] == "as applied"
    # Another team's: its owner is named, and apply asks for --adopt.
    (drivetrain.folder / "reports.json").unlink()
    theirs, other = (
        place[0].partition("bucket=")[2],
        f"--set=deployment.targets.sagemaker.bucket={account.make_bucket()}",
    )
    said = drivetrain("pull", "reports", "--adopt", other, place[1])
    assert f"It is deployed by: s3://{theirs}" in said and said.endswith(" --adopt\n")
    assert "it belongs to" in drivetrain.error("apply", "-d", "reports.json", "--yes", other, place[1])
    said = drivetrain("plan", "-d", "reports.json", "--out", "plan.json", other, place[1])
    assert said.endswith("plan.json is refused, too: plan again with --discard or --adopt, and --out plan.json\n")
    drivetrain("apply", "-d", "reports.json", "--yes", "--adopt", other, place[1])
    assert "Did you mean 'reports'?" in drivetrain.error("pull", "report", "--adopt", *place)


def test_an_empty_account_says_what_to_do(drivetrain: Any, account: TestAccount) -> None:
    assert drivetrain("list", "--deployed").startswith("Nothing is deployed in us-east-1. Deploy a pipeline: ")
    assert listed(drivetrain, "--region", "eu-west-1") == {}


def test_an_unedited_pipeline_is_shown_as_applied(nightly: Any, account: TestAccount) -> None:
    client = account.client("sagemaker")
    there = client.describe_pipeline(PipelineName="nightly")
    found = listed(nightly)["nightly"]
    assert found["state"] == "as applied" and found["last_execution"] is None
    assert found["modified"] == pytest.approx(there["LastModifiedTime"].timestamp(), abs=1)
    assert found["arn"] == there["PipelineArn"]
    tags = {tag["Key"]: tag["Value"] for tag in client.list_tags(ResourceArn=there["PipelineArn"])["Tags"]}
    assert found["applied_sha256"] == tags["drivetrain:applied"]
    [head, line] = nightly("list", "--deployed").splitlines()
    assert head.split() == ["PIPELINE", "STATE", "LAST", "EXECUTION", "STARTED", "CHANGED"]
    assert line.startswith("nightly   as applied  none")


def test_the_last_execution_and_its_state(nightly: Any, account: TestAccount) -> None:
    client = account.client("sagemaker")
    first = client.start_pipeline_execution(PipelineName="nightly", ClientRequestToken="a" * 32)
    Playing(account.backend(), first["PipelineExecutionArn"]).conclude("Failed", "no")
    assert "✗ failed" in nightly("list", "--deployed")
    second = client.start_pipeline_execution(PipelineName="nightly", ClientRequestToken="b" * 32)
    found = listed(nightly)["nightly"]["last_execution"]
    assert (found["arn"], found["status"]) == (second["PipelineExecutionArn"], "Executing")
    assert found["execution"] == second["PipelineExecutionArn"].rpartition("/")[2] and found["started"] > 0
    assert "● running" in nightly("list", "--deployed")


@pytest.mark.slow
def test_edits_of_others_are_shown(nightly: Any, account: TestAccount) -> None:
    by_hand(account, "theirs")
    client = account.client("sagemaker")
    client.update_pipeline(PipelineName="nightly", PipelineDefinition=json.dumps(DEFINITION, indent=3))
    assert listed(nightly)["nightly"]["state"] == "as applied"  # the same, written in another way
    edited = json.dumps({**DEFINITION, "Metadata": {"a": "b"}})
    account.client("sagemaker").update_pipeline(PipelineName="nightly", PipelineDefinition=edited)
    found = listed(nightly)
    assert found["nightly"]["state"] == "edited"
    assert (found["theirs"]["state"], found["theirs"]["applied_sha256"]) == ("not ours", None)
    text = nightly("list", "--deployed")
    assert "drivetrain pull NAME --dry-run" in text and "drivetrain pull NAME --adopt" in text
    arn = found["nightly"]["arn"]
    account.client("sagemaker").add_tags(ResourceArn=arn, Tags=[{"Key": APPLYING, "Value": "0" * 64}])
    assert listed(nightly)["nightly"]["state"] == "being applied"
    assert "applying again ends it" in nightly("list", "--deployed")


@pytest.mark.slow
def test_all_pages_are_read_and_the_limit_applies(
    drivetrain: Any, account: TestAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(account, *(f"p{number}" for number in range(5)))
    monkeypatch.setattr(listing, "PAGE", 2)
    assert sorted(listed(drivetrain)) == ["p0", "p1", "p2", "p3", "p4"]
    assert len(listed(drivetrain, "--limit", "3")) == 3
    text = drivetrain("list", "--deployed", "-n", "3")
    assert "There are more: --limit 6" in text and text.count("not ours") == 3
    assert "There are more" not in drivetrain("list", "--deployed", "-n", "5")


def test_vanished_pipelines_are_skipped_and_denied_ones_reported(account: TestAccount) -> None:
    class Changing(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation == "list_tags" and arguments["ResourceArn"].endswith("/gone"):
                raise AbsentError("gone", code="ResourceNotFound")
            if operation == "list_pipeline_executions" and arguments["PipelineName"] == "secret":
                raise DeniedError("AWS denies it", code="AccessDeniedException")
            return super().call(service, operation, about=about, **arguments)

    by_hand(account, "gone", "secret", "seen")
    found = {each.name: each.state for each in listing.deployed_pipelines(Changing(account.region))}
    assert found == {"secret": "not readable", "seen": "not ours"}


def test_a_missing_start_time_is_unknown(account: TestAccount) -> None:
    class Silent(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            said = super().call(service, operation, about=about, **arguments)
            for each in said.get("PipelineExecutionSummaries", ()):
                del each["StartTime"]
            return said

    by_hand(account, "p")
    account.client("sagemaker").start_pipeline_execution(PipelineName="p", ClientRequestToken="-" * 32)
    (found,) = listing.deployed_pipelines(Silent(account.region))
    assert found.last is not None and found.last["started"] is None


@pytest.mark.slow_cases(but=["70-5"])
@pytest.mark.parametrize(("columns", "names"), [("70", 5), ("60", 4), ("44", 3)])
def test_no_line_is_wider_than_the_terminal(
    nightly: Any, monkeypatch: pytest.MonkeyPatch, columns: str, names: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    head, line = nightly("list", "--deployed").splitlines()
    assert len(head) <= int(columns) and len(line) <= int(columns)
    assert len(head.replace("LAST EXECUTION", "LAST").split()) == names


def test_the_region_option_is_for_deployed_pipelines(drivetrain: Any) -> None:
    assert "Give --deployed, too" in drivetrain.error("list", "--region", "eu-west-1")
