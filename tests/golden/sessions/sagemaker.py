"""What people do with a pipeline on SageMaker, and what others do to it there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.fixtures.sagemaker_service.command_line import CommandLine, denied
from tests.fixtures.sagemaker_service.playing import Playing
from tests.golden.sessions.session import APPLY, PLAN, SOUND, VISION, Session


class Account(CommandLine):
    """The command line, and what others do in the account."""

    def scheduled(self) -> tuple[str, dict[str, Any]]:
        """The name of the schedule, and its fields as they are written."""
        scheduler = self.account.client("scheduler")
        [name] = [item["Name"] for item in scheduler.list_schedules()["Schedules"]]
        said = scheduler.get_schedule(Name=name)
        kept = ("ScheduleExpression", "ScheduleExpressionTimezone", "FlexibleTimeWindow", "Target", "Description")
        return name, {key: said[key] for key in kept}

    def turn(self, **changed: Any) -> None:
        name, said = self.scheduled()
        self.account.client("scheduler").update_schedule(Name=name, **{**said, **changed})

    def forget(self) -> None:
        """Delete the records of what was applied."""
        s3 = self.account.client("s3")
        for item in s3.list_objects_v2(Bucket=self.bucket)["Contents"]:
            if "/applied/" in item["Key"] and not item["Key"].endswith(("owner.json", "lock.json")):
                s3.delete_object(Bucket=self.bucket, Key=item["Key"])


def _instance(read: dict[str, Any]) -> dict[str, Any]:
    return read["Steps"][0]["Arguments"]["ProcessingResources"]["ClusterConfig"]


CHANGED = ("--set", "rows=20", "--set", "every=rate(12 hours)", "--set", "instance=ml.m5.4xlarge")
CHANGED = (*CHANGED, "--set", "team=audio")


def create(run: Session, account: Account) -> None:
    run(*PLAN, "--out", "plan.json")
    run.is_whole = True
    run(*PLAN, "--json")
    run("apply", "nightly.py")
    run("apply", "--plan", "plan.json")
    run("apply", "--plan", "plan.json")
    run(*PLAN, "--exit-code")
    run(*PLAN, "--json")
    run(*APPLY)
    run(*APPLY, "--json")
    run("list", "--deployed", "--region", "us-east-1", "--json")


def update(run: Session, account: Account) -> None:
    run(*APPLY)
    run(*PLAN, *CHANGED, "--exit-code")
    run(*PLAN, *CHANGED, "--json")
    run(*APPLY, *CHANGED)
    run(*APPLY, "--json")
    run(*PLAN, "--set", "deployment.targets.sagemaker.image=other:2", "--set", "min_accuracy=0.5")


def drift(run: Session, account: Account) -> None:
    run(*APPLY)
    run.did("somebody edits two steps in Studio")
    account.edit(lambda read: (_instance(read).update(InstanceType="ml.m5.4xlarge"), read.update(New={"a": 1.0})))
    run(*PLAN, *CHANGED, "--out", "plan.json")
    run(*PLAN, *CHANGED, "--json")
    run(*APPLY, *CHANGED)
    run("apply", "--plan", "plan.json")
    run("list", "--deployed", "--region", "us-east-1")
    run(*PLAN, *CHANGED, "--discard", "New")
    run(*APPLY, *CHANGED, "--discard", "all")


def beside(run: Session, account: Account) -> None:
    run(*APPLY)
    run.did("somebody switches the schedule off, and describes the pipeline")
    account.turn(State="DISABLED")
    account.account.client("sagemaker").update_pipeline(PipelineName="nightly", PipelineDescription="Mine.")
    run(*PLAN)
    run(*PLAN, "--json")
    run(*APPLY)
    run(*APPLY, "--discard", "schedules", "--discard", "pipeline.Description")
    run.did("somebody makes the schedule start something else")
    queue = f"arn:aws:sqs:us-east-1:{account.account.number}:theirs"
    account.turn(Target={"Arn": queue, "RoleArn": account.scheduled()[1]["Target"]["RoleArn"]})
    run("destroy", "nightly.py", "--yes")
    run(*PLAN)
    run(*APPLY)


def foreign(run: Session, account: Account) -> None:
    run("compile", "nightly.py", "-o", "compiled.json", "--home", str(account.folder / "home"))
    run.did("somebody makes a pipeline of that name")
    definition = json.loads((account.folder / "compiled.json").read_text())
    _instance(definition)["InstanceType"] = "ml.c5.xlarge"
    account.account.client("sagemaker").create_pipeline(
        PipelineName="nightly",
        PipelineDefinition=json.dumps(definition),
        RoleArn=account.settings["role"],
        ClientRequestToken="t" * 32,
    )
    run(*PLAN)
    run(*PLAN, "--json")
    run(*APPLY)
    run("destroy", "nightly.py", "--yes")
    run("list", "--deployed", "--region", "us-east-1")
    run(*APPLY, "--discard", "all")


def owner(run: Session, account: Account) -> None:
    run(*APPLY, *VISION)
    run(*PLAN, *SOUND)
    run(*PLAN, *SOUND, "--set", "rows=20", "--json")
    run(*APPLY, *SOUND)
    run("start", "nightly.py", *SOUND)
    run("destroy", "nightly.py", "--yes", *SOUND)
    run(*PLAN, *SOUND, "--adopt", "--out", "plan.json")
    run("apply", "--plan", "plan.json")
    run(*APPLY, *VISION)
    elsewhere = ("--set", "deployment.targets.sagemaker.prefix=others")
    run(*APPLY, *SOUND, *elsewhere)
    run("destroy", "nightly.py", "--yes", "--foreign", *VISION)


def lost(run: Session, account: Account) -> None:
    run(*APPLY)
    run.did("the records are gone, and somebody edits a step")
    account.forget()
    account.edit(lambda read: _instance(read).update(InstanceType="ml.m5.4xlarge"))
    run(*PLAN)
    run(*PLAN, "--json")
    run(*APPLY)
    run("destroy", "nightly.py", "--yes", "--set", "deployment.targets.sagemaker.prefix=others")
    run("destroy", "nightly.py", "--yes", "--set", "deployment.targets.sagemaker.prefix=others", "--foreign")


def strays(run: Session, account: Account) -> None:
    run(*APPLY, *VISION)
    run.did("the pipeline is deleted, and what starts it is not")
    account.account.client("sagemaker").delete_pipeline(PipelineName="nightly")
    run(*PLAN, *VISION)
    run(*PLAN, *SOUND, "--set", "every=rate(2 days)")
    run(*PLAN, *SOUND, "--set", "every=rate(2 days)", "--json")
    run("destroy", "nightly.py", "--yes", *SOUND)
    account.turn(State="DISABLED")
    run(*APPLY, *VISION)


def schedules(run: Session, account: Account) -> None:
    run(*APPLY, "--set", "by_itself=false")
    run(*PLAN)
    run(*PLAN, "--json")
    run(*APPLY)
    run(*PLAN, "--set", "every=rate(12 hours)", "--set", "event=accepted")
    run(*APPLY, "--set", "every=rate(12 hours)", "--set", "event=accepted")
    run(*PLAN, "--set", "by_itself=false", "--json")
    run(*APPLY, "--set", "by_itself=false")


def stale(run: Session, account: Account) -> None:
    run(*PLAN, "--set", "team=secret", "--out", "plan.json")
    plan = account.folder / "plan.json"
    said = plan.read_text()
    run("apply", "--plan", "plan.json", "--adopt")
    for was, instead in (
        ('"pipeline": "nightly"', '"pipeline": "weekly"'),
        ('us-east-1"', 'eu-west-1"'),
        ('"code": "', '"code": "0'),
        ('"format": ', '"format": 99'),
        ('"format": ', '"form": '),
        ('"action": "create"', '"action": "leave"'),
        ('"notes": [', '"notes": {}, "was": ['),
    ):
        run.did(f"{was} -> {instead}")
        plan.write_text(said.replace(was, instead))
        run("apply", "--plan", "plan.json")
    plan.write_text("[]")
    run("apply", "--plan", "plan.json")
    plan.write_text(said)
    run(*APPLY, "--set", "team=secret")
    run("apply", "--plan", "plan.json")


def refused(run: Session, account: Account) -> None:
    with denied(lambda number, name: name == "scheduler:CreateSchedule"):
        run(*APPLY)
    run(*APPLY, "--json")
    with denied(lambda number, name: name == "scheduler:UpdateSchedule"):
        run(*APPLY, *CHANGED)
    writes: list[str] = []

    def denies_second_update(number: int, name: str) -> bool:
        writes.extend([name] if name == "sagemaker:UpdatePipeline" else [])
        return name == "scheduler:UpdateSchedule" or (name == "sagemaker:UpdatePipeline" and len(writes) > 1)

    with denied(denies_second_update):
        run(*APPLY, *CHANGED)
    run(*APPLY)
    with denied(lambda number, name: name == "sagemaker:DeletePipeline"):
        run("destroy", "nightly.py", "--yes")
    run("destroy", "nightly.py", "--yes")


def destroy(run: Session, account: Account) -> None:
    run(*APPLY)
    run.did("somebody copies the pipeline in Studio")
    account.account.client("sagemaker").create_pipeline(
        PipelineName="copy",
        PipelineDefinition=account.definition(),
        RoleArn=account.settings["role"],
        ClientRequestToken="t" * 32,
    )
    run("destroy", "nightly.py")
    started = account.json("start", "nightly.py", "--name", "by-hand")
    run.did("it is started")
    run.stands_for(started["execution"], "EXECUTION")
    run("destroy", "nightly.py", "--yes")
    Playing(account.account.backend(), started["arn"]).conclude("Stopped")
    run("destroy", "nightly.py", "--yes")


def definition(run: Session, account: Account) -> None:
    steps = [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}, "Unknown": [1.0, 2]}]
    file = account.folder / "theirs.json"
    file.write_text(json.dumps({"Version": "2020-12-01", "Steps": steps}))
    given = [f"--set=deployment.targets.sagemaker.{name}={account.settings[name]}" for name in ("bucket", "role")]
    run("plan", "-d", "theirs.json", *given)
    run("apply", "-d", "theirs.json", "--yes", "--json", *given)
    file.write_text(json.dumps({"Version": "2020-12-01", "Steps": [{**steps[0], "Description": "Why not."}]}))
    edited = {"Version": "2020-12-01", "Steps": [{**steps[0], "DisplayName": "Stop here"}]}
    account.account.client("sagemaker").update_pipeline(PipelineName="theirs", PipelineDefinition=json.dumps(edited))
    run("apply", "-d", "theirs.json", "--yes", *given)
    run("destroy", "theirs", "--yes", *given)


SCENES: dict[str, Callable[[Session, Account], None]] = {
    **{scene.__name__: scene for scene in (create, update, drift, beside, foreign, owner, lost)},
    **{scene.__name__: scene for scene in (strays, schedules, stale, refused, destroy, definition)},
}
