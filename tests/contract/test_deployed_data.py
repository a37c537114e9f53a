"""A schedule over a file of this machine is not deployed: each night would read the copy that was uploaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain import Deployment, Pipeline, Schedule, UserError, fixed, step
from drivetrain.components import Input, Output, component
from drivetrain.targets import deployer
from drivetrain.targets.kubeflow.compile.compile import compile_pipeline
from drivetrain.targets.kubeflow.deploy.desired import desired
from tests.fixtures.sagemaker_service.command_line import CommandLine

PIPELINE = """
from drivetrain import Pipeline, Schedule, Settings, fixed, step
from drivetrain.components import Input, Output, component


class Nightly(Settings):
    data: str = "rows.csv"
    never_changes: bool = False


@component
def read(raw: Input, table: Output) -> None:
    ...


def nightly(settings: Nightly) -> Pipeline:
    data = fixed(settings.data) if settings.never_changes else settings.data
    return Pipeline(
        name="nightly",
        steps=[step(read, raw=data)],
        triggers=[Schedule(name="daily", rate="1 day")],
        deployment=settings.deployment,
    )
"""


@component
def read(raw: Input, table: Output) -> None: ...


def test_plan_and_apply_refuse_constant_data_on_sagemaker(
    drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (drivetrain.folder / "nightly.py").write_text(PIPELINE)
    (drivetrain.folder / "rows.csv").write_text("id\n1\n")
    with monkeypatch.context() as nobody:
        nobody.setattr(deployer, "find_deploying", pytest.fail)  # no account is asked
        for command in (("plan", "nightly.py"), ("apply", "nightly.py", "--yes")):
            drivetrain(*command, code=2)
            assert drivetrain.err.startswith("error: Step 'read' reads 'rows.csv' of this machine"), drivetrain.err
            assert "raw=fixed('rows.csv')" in drivetrain.err and "Traceback" not in drivetrain.err
    assert "+ schedule" in drivetrain("plan", "nightly.py", "--set", "never_changes=true")
    assert "look-at-read-raw" in drivetrain("plan", "nightly.py", "--set", "data=s3://lake/raw/")


def test_constant_data_are_refused_on_kubeflow(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")

    def deployed(data: object) -> None:
        pipeline = Pipeline(
            name="nightly",
            steps=[step(read, raw=data)],
            triggers=[Schedule(name="daily", rate="1 day")],
            deployment=Deployment(targets={"kubeflow": {"endpoint": "http://kfp", "root": "s3://bucket/pipelines"}}),
        )
        desired(compile_pipeline(pipeline, base=tmp_path, here=True))

    with pytest.raises(UserError, match=r"schedule 'daily' starts the pipeline.*raw=fixed\('rows.csv'\)"):
        deployed("rows.csv")
    deployed(fixed("rows.csv"))
