"""Paths rewritten where nothing can be mounted, and programs that would miss /opt/ml refused."""

from __future__ import annotations

import io
import json
import marshal
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.processes import mounts
from drivetrain.processes.container import Host, Job, start
from drivetrain.processes.mounts import host_path, literal_lines, refuse_literals, rewrite
from drivetrain.steps import start as start_file

ROOT = Path("/run/x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/opt/ml", "/run/x"),
        ("/opt/ml/model", "/run/x/model"),
        ("--out=/opt/ml/model", "--out=/run/x/model"),
        ("/opt/ml/a:/opt/ml/b", "/run/x/a:/run/x/b"),
        ('{"p": "/opt/ml/a", "q": ["/opt/ml"]}', '{"p": "/run/x/a", "q": ["/run/x"]}'),
        ("file:///opt/ml/a", "file:///run/x/a"),
        ("/opt/mlflow/x", "/opt/mlflow/x"),
        ("/opt/ml-old/x", "/opt/ml-old/x"),
        ("/opt/ml.bak", "/opt/ml.bak"),
        ("s3://bucket/opt/ml/x", "s3://bucket/opt/ml/x"),
        ("/srv/opt/ml/x", "/srv/opt/ml/x"),
        ("./opt/ml/x", "./opt/ml/x"),
        ("~/opt/ml", "~/opt/ml"),
        ("nothing", "nothing"),
    ],
)
def test_rewriting(text: str, expected: str) -> None:
    assert rewrite(text, ROOT) == expected


def test_a_root_with_a_backslash_is_taken_literally() -> None:
    assert rewrite("/opt/ml/a", Path(r"/run/\1\g<0>")) == r"/run/\1\g<0>/a"


def test_host_paths() -> None:
    assert host_path("/opt/ml/a/b", ROOT) == ROOT / "a/b"
    assert host_path("/usr/bin/env", ROOT) == Path("/usr/bin/env")
    with pytest.raises(UserError, match=r"without '\.\.'"):
        host_path("/opt/ml/../a", ROOT)


PROGRAM = '''"""Reads /opt/ml/input."""
import os
# /opt/ml/model is where it goes
"""/opt/ml in a bare string"""
A = os.environ.get("SM_MODEL_DIR", "/opt/ml/model")
B = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
C = "s3://bucket/opt/ml"
def f():
    """/opt/ml in a docstring"""
    return f"/opt/ml/{A}"
'''


def test_what_counts_as_a_literal() -> None:
    assert list(literal_lines("a.py", PROGRAM.encode(), {"SM_MODEL_DIR": "x"})) == [10]
    assert list(literal_lines("a.py", PROGRAM.encode(), {})) == [5, 10]
    assert list(literal_lines("a.py", b"x = (\n  1,\n  '/opt/ml/a',\n)", {})) == [3]
    assert list(literal_lines("a.py", b"this is no python /opt/ml", {})) == [1], "careful with what cannot be parsed"
    assert list(literal_lines("a.sh", b"#!/bin/sh\n# /opt/ml\ncp /opt/ml/a .\n", {})) == [3]
    assert list(literal_lines("a.py", b"'/opt/mlx' '/opt'", {})) == []


def test_a_script_with_a_literal_is_refused_with_file_and_line(tmp_path: Path) -> None:
    code = tmp_path / "processing" / "code"
    (code / "sub").mkdir(parents=True)
    (code / "main.py").write_text("import sub.deep\n")
    (code / "sub" / "deep.py").write_text("x = 1\ny = '/opt/ml/output'\n")
    command = ("python3", "/opt/ml/processing/code/main.py", "--out", "/opt/ml/output")
    with pytest.raises(UserError, match=r"deep\.py, line 2: .*argument or an SM_\* variable, or run where"):
        refuse_literals(command, {}, (), tmp_path)
    (code / "sub" / "deep.py").write_text("x = 1\n")
    refuse_literals(command, {}, (), tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "run.sh").write_text("ls /opt/ml\n")
    refuse_literals(("./run.sh",), {}, (), tmp_path)
    with pytest.raises(UserError, match=r"run\.sh, line 1"):
        refuse_literals(("./run.sh",), {}, ("/opt/ml/code",), tmp_path)


def test_the_users_part_of_an_archive_is_searched(tmp_path: Path) -> None:
    channel = tmp_path / "processing" / "input" / "code"
    channel.mkdir(parents=True)
    shutil.copy(start_file.__file__, channel / "start.py")
    command = ("python3", "/opt/ml/processing/input/code/start.py", "--code", "x", "script:job.py")
    for source, refused in (("x = 1", False), ("x = '/opt/ml/model'", True)):
        with tarfile.open(channel / "x.tar", "w") as archive:
            for name, text in (("drivetrain/a.py", "B = '/opt/ml'"), ("source/job.py", source)):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        if refused:
            with pytest.raises(UserError, match=r"source/job\.py, line 1"):
                refuse_literals(command, {}, (), tmp_path)
        else:
            refuse_literals(command, {}, (), tmp_path)


def test_nothing_starts_when_a_script_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    (root / "code").mkdir(parents=True)
    (root / "code" / "main.py").write_text("open('/opt/ml/started', 'w')\n")
    job = Job(
        command=("python3", "/opt/ml/code/main.py"),
        environment={},
        hosts=(Host("127.0.0.1", root),),
        log_folder=tmp_path / "logs",
        mode="rewrite",
    )
    with pytest.raises(UserError, match=r"main\.py, line 1"):
        start(job)
    assert not (tmp_path / "logs").exists() and not (root / "started").exists()


def test_rewriting_reaches_hyperparameters_and_variables(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    config = root / "input" / "config"
    config.mkdir(parents=True)
    (config / "hyperparameters.json").write_text(json.dumps({"data": "/opt/ml/input/data/train", "epochs": "3"}))
    program = "import os; print(os.environ['DATA'], os.environ['SAGEMAKER_BASE_DIR'], os.getcwd())"
    job = Job(
        command=("python3", "-I", "-S", "-c", program),
        environment={"DATA": "/opt/ml/input"},
        hosts=(Host("127.0.0.1", root),),
        log_folder=tmp_path / "logs",
        mode="rewrite",
    )
    result = start(job).wait(30)
    assert result is not None and result.succeeded
    assert (tmp_path / "logs" / "127.0.0.1.log").read_text().split() == [f"{root}/input", str(root), str(root)]
    rewritten = json.loads((config / "hyperparameters.json").read_text())
    assert rewritten == {"data": f"{root}/input/data/train", "epochs": "3"}


def test_a_mode_that_the_machine_forbids_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "isolation", lambda: "none")
    assert mounts.resolve("auto") == "none"
    with pytest.raises(UserError, match=r"'namespace'.*Use 'rewrite'"):
        mounts.resolve("namespace")


def test_a_plain_user_mounts_in_a_user_namespace() -> None:
    """The supervisor as the user `nobody`, without any privilege, in both of its ways."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no Python that every user can run")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        ours = folder / "drivetrain/processes"
        shutil.copytree(mounts.SUPERVISOR.parent, ours)
        shutil.copytree(mounts.SUPERVISOR.parents[1] / "base", folder / "drivetrain" / "base")
        (folder / "root").mkdir()
        shutil.chown(folder, 65534, 65534)
        shutil.chown(folder / "root", 65534, 65534)
        command = [python, "-I", "-S", str(ours / "supervisor.py")]
        probe = subprocess.run([*command, "--probe"], user=65534, group=65534, extra_groups=[], capture_output=True)
        allowed = probe.stdout.decode().strip()
        if allowed == "none":
            pytest.skip("plain users may not make user namespaces here")
        spec = {
            "command": ["sh", "-c", "id -u > /opt/ml/id; grep CapEff /proc/self/status >> /opt/ml/id"],
            "working_folder": "/opt/ml",
            "environment": {"PATH": "/usr/bin:/bin"},
            "record": str(folder / "record"),
            "time_limit_s": None,
            "grace_s": 1,
            "mounts": str(folder / "root"),
            "pid_namespace": allowed == "pid",
            "temporary": str(folder / "temporary"),
            "mark": 1 << 60,
            "secrets": [],
        }
        with subprocess.Popen(
            command, user=65534, group=65534, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            told = marshal.dumps(spec, 2)  # which every Python reads
            process.stdin.write(b"%d\n" % len(told) + told)
            process.stdin.flush()
            assert process.stdout.read() == b""
        assert marshal.loads((folder / "record").read_bytes())["exit_code"] == 0
        assert (folder / "root" / "id").read_text() == "65534\nCapEff:\t0000000000000000\n"
        assert not (folder / "temporary").exists()
    finally:
        shutil.rmtree(folder)
