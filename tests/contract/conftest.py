"""An account at the stand-in for SageMaker, and the command line in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.sagemaker_service.command_line import CommandLine
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service


@pytest.fixture
def account() -> Iterator[TestAccount]:
    with sagemaker_service().account() as account:
        yield account


@pytest.fixture
def drivetrain(
    tmp_path: Path, account: TestAccount, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, account, capsys.readouterr)
