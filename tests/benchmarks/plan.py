"""CPU seconds of planning the flagship against an account in another process; the same bytes when applied again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, Ran, in_turn, run
from tests.fixtures.sagemaker_service.server import TestAccount

PROBE = Path(__file__).parent / "probes" / "sagemaker_service.py"
FLAGSHIP = "retraining"
ALLOWED_S = 1.0
# What no plan can do without: a client of SageMaker, and one answer.
ONE_CALL = "import botocore.session as s; s.get_session().create_client('sagemaker').list_pipelines()"
PLANS = {
    "nothing is deployed": (),
    "nothing changes": (),
    "a setting changes": ("--set", "epochs=3"),
}


class Deployer:
    """`drivetrain` for a user with an account."""

    def __init__(self, home: Path, account: TestAccount, bucket: str) -> None:
        role = f"arn:aws:iam::{account.number}:role/pipelines"
        image = f"{account.number}.dkr.ecr.{account.region}.amazonaws.com/jobs:1"
        place = {
            "deployment.targets.sagemaker.bucket": bucket,
            "deployment.targets.sagemaker.role": role,
            "deployment.targets.sagemaker.image": image,
        }
        self.home, self.account = home, account
        self.settings = [word for name, value in place.items() for word in ("--set", f"{name}={value}")]
        self.variables = {**QUIET, **account.variables, "PATH": "/usr/bin:/bin", "HOME": str(home)}

    def __call__(self, command: str, *more: str, seed: str = "0") -> Ran:
        words = [sys.executable, "-m", "drivetrain.cli.main", command, FLAGSHIP, *self.settings, *more]
        return self.run(words, seed)

    def run(self, words: list[str], seed: str = "0") -> Ran:
        return run(words, cwd=self.home, environment={**self.variables, "PYTHONHASHSEED": seed}).checked()

    def definition(self) -> str:
        """What is deployed, to the byte."""
        said = self.account.client("sagemaker").describe_pipeline(PipelineName=FLAGSHIP)
        return said["PipelineDefinition"]

    def num_versions(self) -> int:
        said = self.account.client("sagemaker").list_pipeline_versions(PipelineName=FLAGSHIP)
        return len(said["PipelineVersionSummaries"])


def records(bench: Bench) -> Iterator[Record]:
    with deployer(bench.folder("plan")) as drivetrain:
        yield _planned(bench, drivetrain, "nothing is deployed")
        bench.progress("plan: applied again")
        yield Record(
            name="plan: the definition is the same bytes when applied again",
            unit="bool",
            ours=same_bytes(drivetrain),
            target=True,
            note="in place, and anew after destroy, with another hash seed",
        )
        yield _planned(bench, drivetrain, "nothing changes")
        yield _planned(bench, drivetrain, "a setting changes")


def same_bytes(drivetrain: Deployer) -> bool:
    """Whether applying writes what was there: nothing in place, and anew after everything was taken away."""
    drivetrain("apply", "--yes", seed="1")
    first = drivetrain.definition()
    drivetrain("apply", "--yes", seed="2")
    again, versions = drivetrain.definition(), drivetrain.num_versions()
    drivetrain("destroy", "--yes")
    drivetrain("apply", "--yes", seed="2")
    return first == again == drivetrain.definition() and versions == 1


def _planned(bench: Bench, drivetrain: Deployer, what: str) -> Record:
    bench.progress(f"plan: {what}")
    rivals: dict[str, Callable[[], float]] = {
        OURS: lambda: drivetrain("plan", *PLANS[what]).cpu,
        "one call": lambda: drivetrain.run([sys.executable, "-c", ONE_CALL]).cpu,
    }
    if not bench.quick:
        in_turn(rivals, rounds=1)  # compiled files written, pages cached
    medians = in_turn(rivals, rounds=1 if bench.quick else 5)
    return Record(
        name=f"plan: the flagship, {what}, CPU",
        unit="s",
        ours=medians[OURS],
        limit=medians["one call"],
        target=ALLOWED_S,
        note="with the interpreter's start; the limit is one call of SageMaker through botocore",
    )


@contextmanager
def deployer(home: Path) -> Generator[Deployer]:
    """One in an account of a server that ends with the context."""
    environment = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [sys.executable, PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        said = json.loads(server.stdout.readline())
        account = TestAccount(said["number"], said["variables"])
        yield Deployer(home, account, said["bucket"])
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait()
