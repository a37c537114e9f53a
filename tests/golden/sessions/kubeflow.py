"""What people do with a pipeline on Kubeflow, and what others do to it there."""

from __future__ import annotations

from collections.abc import Callable

from tests.fixtures.kubeflow_pipelines.command_line import CommandLine
from tests.golden.sessions.session import APPLY, PLAN, SOUND, VISION, Session


def create(run: Session, cluster: CommandLine) -> None:
    run(*PLAN, "--out", "plan.json")
    run(*PLAN, "--json")
    run("apply", "nightly.py")
    run("apply", "--plan", "plan.json")
    run("apply", "--plan", "plan.json")
    run(*PLAN, "--exit-code")
    run(*PLAN, "--json")
    run(*APPLY, "--json")
    run("list", "--deployed", "-c", "nightly.yaml", "--json")


def update(run: Session, cluster: CommandLine) -> None:
    changed = ("--set", "rows=20", "--set", "cron=30 4 * * ? *", "--set", "memory=2")
    run(*APPLY)
    run(*PLAN, *changed)
    run(*PLAN, *changed, "--json")
    run(*APPLY, *changed)
    run(*APPLY, "--json")


def drift(run: Session, cluster: CommandLine) -> None:
    run(*APPLY)
    run.did("somebody uploads a version, and switches the schedule off")
    store = cluster.cluster.store
    (pipeline,) = store.pipelines
    store.upload_version({"pipelineid": pipeline, "name": "by-hand"}, store.uploads[-1].encode())
    (daily,) = store.recurring.values()
    daily["status"] = "DISABLED"
    run(*PLAN, "--out", "plan.json")
    run(*PLAN, "--json")
    run(*APPLY)
    run("apply", "--plan", "plan.json")
    run("list", "--deployed", "-c", "nightly.yaml")
    run(*PLAN, "--discard", "steps.prepare")
    run(*APPLY, "--discard", "all")


def foreign(run: Session, cluster: CommandLine) -> None:
    run.did("somebody makes a pipeline of that name")
    store = cluster.cluster.store
    store.create_pipeline({"name": "nightly", "display_name": "nightly", "namespace": "team-a"})
    run(*PLAN)
    run(*PLAN, "--json")
    run(*APPLY)
    run("destroy", "nightly.py", "--yes")
    run("list", "--deployed", "-c", "nightly.yaml")
    run(*APPLY, "--discard", "all")


def owner(run: Session, cluster: CommandLine) -> None:
    run(*APPLY, *VISION)
    run(*PLAN, *SOUND)
    run(*PLAN, *SOUND, "--json")
    run(*APPLY, *SOUND)
    run("destroy", "nightly.py", "--yes", *SOUND)
    elsewhere = ("--set", f"deployment.targets.kubeflow.root=s3://{cluster.bucket}/others")
    run(*APPLY, *VISION, *elsewhere)
    run(*PLAN, *SOUND, "--adopt", "--out", "plan.json")
    run("apply", "--plan", "plan.json")
    run(*APPLY, *VISION)


def strays(run: Session, cluster: CommandLine) -> None:
    run(*APPLY)
    run.did("somebody makes two more recurring runs of it")
    store = cluster.cluster.store
    (daily,) = store.recurring.values()
    store.recurring["theirs"] = {**daily, "recurring_run_id": "theirs", "display_name": "theirs", "description": ""}
    store.recurring["second"] = {**daily, "recurring_run_id": "second"}
    run(*PLAN)
    run(*PLAN, "--json")
    run(*APPLY)
    run("destroy", "nightly.py", "--yes", "--json")
    run("destroy", "nightly.py", "--yes")


def schedules(run: Session, cluster: CommandLine) -> None:
    run(*APPLY, "--set", "by_itself=false")
    run(*PLAN, "--set", "other=true")
    run(*APPLY, "--set", "other=true")
    run(*PLAN, "--set", "threshold=0.5", "--json")
    run(*APPLY, "--set", "threshold=0.5")
    run(*APPLY, "--set", "by_itself=false")


def stale(run: Session, cluster: CommandLine) -> None:
    run(*PLAN, "--out", "plan.json")
    plan = cluster.folder / "plan.json"
    said = plan.read_text()
    for was, instead in (
        ('"pipeline": "nightly"', '"pipeline": "weekly"'),
        ("team-a", "team-b"),
        ('"code": "', '"code": "0'),
        ('"format": ', '"format": 99'),
        ('"state": "nothing"', '"state": 1'),
    ):
        run.did(f"{was} -> {instead}")
        plan.write_text(said.replace(was, instead))
        run("apply", "--plan", "plan.json")
    plan.write_text(said)
    run(*APPLY)
    run("apply", "--plan", "plan.json")
    run("plan", "-d", "plan.json", "-c", "nightly.yaml")


def refused(run: Session, cluster: CommandLine) -> None:
    def fault(method: str, path: str) -> str:
        return "403" if (method, path.rpartition("/")[2]) == ("POST", "recurringruns") else ""

    cluster.cluster.fault = fault
    run(*APPLY)
    cluster.cluster.fault = lambda method, path: ""
    run(*APPLY)
    cluster.cluster.fault = fault
    run(*APPLY, "--set", "rows=20")
    cluster.cluster.fault = lambda method, path: fault(method, path) or ("403" if method == "DELETE" else "")
    run(*APPLY, "--set", "rows=20")
    cluster.cluster.fault = lambda method, path: ""
    run(*APPLY, "--set", "rows=20")


def destroy(run: Session, cluster: CommandLine) -> None:
    run(*APPLY)
    run("start", "nightly.py", "--name", "by-hand")
    run("destroy", "nightly.py")
    run("destroy", "nightly.py", "--yes")
    run("runs", "stop", "--on", "kubeflow", "-p", "nightly.py")
    (only,) = cluster.cluster.store.runs
    cluster.cluster.store.conclude(only)
    run("destroy", "nightly.py", "--yes")
    run("destroy", "nightly.py", "--yes")


SCENES: dict[str, Callable[[Session, CommandLine], None]] = {
    scene.__name__: scene
    for scene in (create, update, drift, foreign, owner, strays, schedules, stale, refused, destroy)
}
