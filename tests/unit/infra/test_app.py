"""The command line of the stack: what it is built for is the pipeline that is deployed."""

from pathlib import Path
from typing import Any

import pytest

from drivetrain.infra import app
from drivetrain.targets.sagemaker.compile.compile import Compiled

PIPELINE = """\
from drivetrain import Deployment, Pipeline, fail


def nightly() -> Pipeline:
    block = {"bucket": "acme", "role": "arn:aws:iam::111122223333:role/pipeline"}
    place = Deployment(targets={"sagemaker": block})
    return Pipeline(name="nightly", steps=[fail("no", name="stop")], deployment=place)
"""
NOTIFY = """\
pipeline: nightly
edits:
- place: steps.notify
  now:
    Name: notify
    Type: Lambda
    FunctionArn: arn:aws:lambda:us-east-1:111122223333:function:notify
"""


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Compiled]:
    """What a stack was asked for: the CDK need not be here."""
    found: list[Compiled] = []

    class Synthesized:
        def synth(self) -> None: ...

    def build(compiled: Compiled, *rest: Any) -> Synthesized:
        found.append(compiled)
        return Synthesized()

    monkeypatch.setattr(app, "build", build)
    monkeypatch.setattr(app, "_check_installed", lambda: None)
    return found


def test_the_stack_includes_studio_edits(tmp_path: Path, built: list[Compiled]) -> None:
    (tmp_path / "stack_flow.py").write_text(PIPELINE)
    (tmp_path / "nightly.studio.yaml").write_text(NOTIFY)
    assert app.main([str(tmp_path / "stack_flow.py"), "-o", str(tmp_path / "out")]) == 0
    (compiled,) = built
    assert [step["Name"] for step in compiled.definition["Steps"]] == ["stop", "notify"]


def test_an_edit_that_does_not_fit_is_refused(
    tmp_path: Path, built: list[Compiled], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other_flow.py").write_text(PIPELINE)
    (tmp_path / "nightly.studio.yaml").write_text(
        "pipeline: nightly\nedits:\n- place: steps.lost.Description\n  now: gone\n"
    )
    assert app.main([str(tmp_path / "other_flow.py"), "-o", str(tmp_path / "out")]) == 2
    assert "steps.lost.Description" in capsys.readouterr().err
    assert built == []
