"""Homes: for their owners only. Of those that cannot be used one line says why, and what to give instead."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.main import run
from drivetrain.run_store.home import Home
from drivetrain.serve.server import _locked


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    home.lock_file("first").parent.mkdir()
    home.lock_file("first").touch()
    return home


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_system_without_locks(home: Home, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them two processes would run one execution."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    said = rf"{home.root} lies on a file system without locks \(flock\).* by --home or \$DRIVETRAIN_HOME\.$"
    with pytest.raises(UserError, match=said), home.lock("first"):
        pass
    with pytest.raises(UserError, match=said), home.checkpoint_lock("s3://b/k", "first", "train"):
        pass
    with pytest.raises(UserError, match=said):
        home.is_running("first")
    with pytest.raises(UserError, match=said):
        _locked(home.runs)


_PROGRAM = """
import os, shutil, sys
os.makedirs('/opt/ml/processing/out/deep')
for path in ('/opt/ml/processing/out/deep/a.csv', '/opt/ml/processing/rest', sys.argv[1]):
    open(path, 'w').write('a,b')
"""


@pytest.mark.usefixtures("any_umask")
def test_files_in_a_home_are_private_and_others_follow_the_umask(tmp_path: Path) -> None:
    elsewhere, stub = tmp_path / "elsewhere", tmp_path / "stub" / "deep"
    stub.mkdir(parents=True)
    (stub / "b.csv").write_text("a,b")
    job = {
        "ProcessingResources": {"ClusterConfig": {"InstanceType": "m", "InstanceCount": 1, "VolumeSizeInGB": 1}},
        "AppSpecification": {
            "ImageUri": "image",
            "ContainerEntrypoint": ["python3", "-c", _PROGRAM, str(elsewhere)],
        },
        "RoleArn": "arn:aws:iam::000000000000:role/Role",
    }
    outputs = [
        {
            "OutputName": "out",
            "S3Output": {
                "S3Uri": f"s3://bucket/{name}",
                "LocalPath": "/opt/ml/processing/out",
                "S3UploadMode": "EndOfJob",
            },
        }
        for name in ("work", "stubbed")
    ]
    steps = [
        {"Name": name, "Type": "Processing", "Arguments": {**job, "ProcessingOutputConfig": {"Outputs": [output]}}}
        for name, output in zip(("work", "stubbed"), outputs, strict=True)
    ]
    definition = tmp_path / "definition.json"
    definition.write_text(json.dumps({"Version": "2020-12-01", "Steps": steps}))
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"OutputFolders": {"out": str(stub.parent)}}))
    home = tmp_path / "home"
    assert run(["run", "-d", str(definition), "--stub", f"stubbed={answers}", "--home", str(home)]) == 0
    assert {path.name for path in home.glob("s3/bucket/*/deep/*")} == {"a.csv", "b.csv"}
    assert [path for path in (home, *home.rglob("*")) if path.lstat().st_mode & 0o077 and not path.is_symlink()] == []
    assert elsewhere.stat().st_mode & 0o777 == 0o666


@pytest.fixture
def any_umask() -> Iterator[None]:
    """Nothing is taken away from what is written."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_home_open_to_others_stays_open(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.root.chmod(0o750)
    os.removexattr(home.root, "system.posix_acl_default")
    home.create()
    assert os.listxattr(home.root) == []


def test_a_file_system_without_acls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "setxattr", refused)
    home = Home(tmp_path / "home")
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o700
