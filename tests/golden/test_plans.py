"""Deploying in words, on both targets: each file is a session at the command line, as a person reads it, and plans as
`--json` gives them. `make golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.kubeflow_pipelines.command_line import CommandLine
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.s3_server import environment, s3_server, variables
from tests.fixtures.sagemaker_service.server import sagemaker_service
from tests.golden.sessions import kubeflow, sagemaker
from tests.golden.sessions.session import Session

HERE = Path(__file__).parent / "plans"
QUICK = ["drift"]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the session."""
    monkeypatch.chdir(tmp_path)
    for name in ("KF_PIPELINES_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH", "DRIVETRAIN_HOME", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.slow_cases(but=QUICK)
@pytest.mark.parametrize("name", list(sagemaker.SCENES))
def test_sagemaker(name: str, shell: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    with sagemaker_service().account() as account:
        line = sagemaker.Account(shell, account, capsys.readouterr)
        run = Session(line.said, {account.number: "ACCOUNT", line.bucket: "BUCKET", str(shell): "FOLDER"})
        sagemaker.SCENES[name](run, line)
    _compare(run, HERE / "sagemaker" / f"{name}.txt", request)


@pytest.mark.slow_cases(but=QUICK)
@pytest.mark.parametrize("name", list(kubeflow.SCENES))
def test_kubeflow(name: str, shell: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    with pipelines_api(multi_user=True) as cluster, environment(variables(s3_server())):
        line = CommandLine(shell, cluster, capsys.readouterr)
        names = {cluster.endpoint: "ENDPOINT", s3_server(): "STORAGE", line.bucket: "BUCKET", str(shell): "FOLDER"}
        run = Session(line.said, names)
        kubeflow.SCENES[name](run, line)
    _compare(run, HERE / "kubeflow" / f"{name}.txt", request)


def _compare(run: Session, golden: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--write-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(str(run), encoding="utf-8")
    assert str(run) == golden.read_text(encoding="utf-8")
