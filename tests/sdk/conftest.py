"""The SageMaker SDK is in an environment of its own: one process there works offline, one against a server here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "fixtures" / "sagemaker_sdk"
PYTHON = ROOT / ".venvs" / "sdk" / "bin" / "python"
DEFINITIONS = (PROGRAMS / "every_form.json", *sorted((ROOT / "tests" / "fixtures" / "definitions").glob("*.json")))


def run(program: str, folder: Path, *arguments: str | Path, **variables: str) -> dict[str, Any]:
    """What one of the programs says, run with nothing of this environment but what is given."""
    if not PYTHON.exists():
        pytest.skip("no .venvs/sdk: run `make test-in ENV=sdk`")
    done = subprocess.run(
        [str(PYTHON), str(PROGRAMS / program), str(folder), *map(str, arguments)],
        cwd=folder,
        env={
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true",
            "SAGEMAKER_VALIDATE_ROLE": "false",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "said.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def offline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Without network, region and credentials."""
    return run("offline.py", tmp_path_factory.mktemp("offline"), *DEFINITIONS)


@pytest.fixture(scope="session")
def account() -> TestAccount:
    made = sagemaker_service().new_account()
    made.make_bucket()
    return made


@pytest.fixture(scope="session")
def online(tmp_path_factory: pytest.TempPathFactory, account: TestAccount) -> dict[str, Any]:
    """With an account on this machine's server."""
    (bucket,) = [bucket["Name"] for bucket in account.client("s3").list_buckets()["Buckets"]]
    role = f"arn:aws:iam::{account.number}:role/pipelines"
    said = run("online.py", tmp_path_factory.mktemp("online"), bucket, role, **account.variables)
    return {**said, "bucket": bucket}
