"""An account at the stand-in for SageMaker, and the command line in it; interpreters that runs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drivetrain.targets.sagemaker.run import spares
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


class _Kept(spares._Server):
    """Stays when a run ends, so that the next one forks its steps from it."""

    def close(self) -> None:
        if self._process.poll() is not None:
            super().close()


@pytest.fixture(scope="session")
def kept_interpreters() -> Iterator[list[_Kept]]:
    kept: list[_Kept] = []
    yield kept
    for each in kept:
        if each._process.poll() is None:
            spares._Server.close(each)


@pytest.fixture(scope="module", autouse=True)
def shared_interpreters(kept_interpreters: list[_Kept]) -> Iterator[None]:
    """The runs of these tests load torch once, not once each: their steps are forks of the same interpreters.

    A module at a time: a patch of the session would also hold in other folders, whose tests run in the same process.
    """
    kept = kept_interpreters

    def server(modules: Sequence[str]) -> _Kept:
        alive = [each for each in kept if each._process.poll() is None and bool(each.modules) == bool(modules)]
        for each in alive:
            if each.modules.issuperset(modules):
                return each
        kept.append(_Kept(modules))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spares, "_Server", server)
        yield
