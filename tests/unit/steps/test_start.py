"""The start file as a container runs it: a program of its own, in every Python it may meet."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from drivetrain.base.masking import looks_secret, without_secrets
from drivetrain.steps import start
from drivetrain.steps.start import StartError, option, unpack, unpack_wheel

START = Path(start.__file__)
REPORT = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), sys.path, os.getcwd(), __file__]))"


def tar(members: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def extended(key: str, value: str, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A file `a` behind an extended header of one record."""
    record = f" {key}={value}\n".encode()
    content = str(len(record) + 2).encode() + record
    header = special("header", kind)
    header.size = len(content)
    return header.tobuf(tarfile.USTAR_FORMAT) + content.ljust(512, b"\0") + tar({"a": b"x"})


def gnu(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


class Channel:
    """A code channel on disk, its archive's hash, and a base folder in place of /opt/ml."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.folder, self.base = folder / "channel", folder / "ml"
        self.folder.mkdir()
        self.base.mkdir()
        shutil.copy(START, self.folder / "start.py")
        content = tar(files)
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.archive = self.folder / (self.sha256 + ".tar")
        self.archive.write_bytes(content)
        (folder / "tmp").mkdir()
        self.temporary = folder / "tmp"

    def run(
        self, *arguments: str, python: str = sys.executable, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, str(self.folder / "start.py"), *arguments],
            env={
                "PATH": os.environ["PATH"],
                "SAGEMAKER_BASE_DIR": str(self.base),
                "TMPDIR": str(self.temporary),
                **(environment or {}),
            },
            cwd=self.base,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def write(self, name: str, content: object) -> None:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def test_a_script_of_the_source_folder_runs_from_a_fresh_folder(tmp_path: Path) -> None:
    channel = Channel(
        tmp_path, {"source/jobs/report.py": REPORT.encode(), "source/mine.py": b"", "drivetrain/a.py": b""}
    )
    done = channel.run("--code", channel.sha256, "script:jobs/report.py", "--a", "b c", "$(x)", "--code")
    assert done.returncode == 0, done.stderr
    arguments, environment, path, folder, file = json.loads(done.stdout)
    assert arguments == ["--a", "b c", "$(x)", "--code"]
    root = Path(file).parents[2]
    assert root.parent.parent == channel.temporary and root.parent.stat().st_mode & 0o777 == 0o700
    assert environment["PYTHONPATH"].split(":") == [str(root), str(root / "source")]
    assert path[1:3] == [str(root), str(root / "source")]
    assert folder == str(channel.base)
    assert environment["DRIVETRAIN_FAILURE_FILE"] == str(channel.base / "output" / "message")
    assert "DRIVETRAIN_TENSORBOARD_FOLDER" not in environment


def test_a_target_runs_through_call_and_its_children_import_the_same_code(tmp_path: Path) -> None:
    call = b"""import subprocess, sys
print(sys.argv[1:], flush=True)
subprocess.run([sys.executable, '-c', 'import drivetrain.components, digits; print(digits.__file__)'], check=True)
"""
    files = {
        "drivetrain/__init__.py": b"",
        "drivetrain/components/__init__.py": b"",
        "drivetrain/steps/call.py": call,
        "source/digits.py": b"",
    }
    channel = Channel(tmp_path, files)
    done = channel.run("--code", channel.sha256, "digits:evaluate", "--x", "1")
    assert done.returncode == 0, done.stderr
    arguments, child = done.stdout.splitlines()
    assert arguments == "['digits:evaluate', '--x', '1']"
    assert child.startswith(str(channel.temporary)) and child.endswith("/source/digits.py")


def test_training_reads_the_platforms_files(tmp_path: Path) -> None:
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    channel.write(
        "input/config/hyperparameters.json",
        {"max_digits": "3", "lr": "-1e-5", "note": "--x", "sagemaker_region": '"r"', "_tuning_objective_metric": "m"},
    )
    channel.write("input/config/inputdataconfig.json", {"train_data": {}, "code": {}, "extra": {}})
    channel.write(
        "input/config/resourceconfig.json",
        {"hosts": ["algo-1", "algo-2"], "current_host": "algo-2", "network_interface_name": "eth0"},
    )
    folders = "model,output,checkpoints"
    done = channel.run(
        "--code", channel.sha256, "--training", "--folders", folders, "script:report.py", "--own", "1"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    arguments, environment, *_ = json.loads(done.stdout)
    base = str(channel.base)
    assert arguments == [
        "--own", "1", "--lr=-1e-5", "--max-digits", "3", "--note=--x",
        "--extra", f"{base}/input/data/extra", "--train-data", f"{base}/input/data/train_data",
        "--model", f"{base}/model", "--output", f"{base}/output/data", "--checkpoints", f"{base}/trainings",
    ]  # fmt: skip
    assert environment["DRIVETRAIN_HOSTS"] == "algo-1,algo-2"
    assert environment["DRIVETRAIN_HOST"] == "algo-2"
    assert environment["DRIVETRAIN_NETWORK_INTERFACE"] == "eth0"
    assert environment["DRIVETRAIN_FAILURE_FILE"] == f"{base}/output/failure"
    assert environment["DRIVETRAIN_TENSORBOARD_FOLDER"] == f"{base}/output/tensorboard"
    assert (channel.base / "output").is_dir()


def test_under_the_toolkit_arguments_come_from_the_environment(tmp_path: Path) -> None:
    """In a training of a tuning, which can name no entry point: the command line is the hyperparameters'."""
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    channel.write(
        "input/config/hyperparameters.json",
        {"rate": "0.5", "sagemaker_program": "start.py", "_tuning_objective_metric": "loss"},
    )
    channel.write("input/config/inputdataconfig.json", {"code": {}})
    told = {"DRIVETRAIN_START": json.dumps(["--code", channel.sha256, "--training", "script:report.py"])}
    done = channel.run("--rate", "0.5", environment=told)
    assert done.returncode == 0, done.stderr
    arguments, environment, *_ = json.loads(done.stdout)
    assert arguments == ["--rate", "0.5"]
    assert "DRIVETRAIN_START" not in environment


def test_processing_finds_its_hosts(tmp_path: Path) -> None:
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    channel.write("config/resourceconfig.json", {"hosts": ["algo-1"], "current_host": "algo-1"})
    environment = json.loads(channel.run("--code", channel.sha256, "script:report.py").stdout)[1]
    assert environment["DRIVETRAIN_HOSTS"] == environment["DRIVETRAIN_HOST"] == "algo-1"
    assert "DRIVETRAIN_NETWORK_INTERFACE" not in environment


def test_an_inherited_python_path_comes_last(tmp_path: Path) -> None:
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    done = channel.run("--code", channel.sha256, "script:report.py", environment={"PYTHONPATH": "/image/lib"})
    assert json.loads(done.stdout)[1]["PYTHONPATH"].endswith("/source:/image/lib")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--code None is not a SHA-256"),
        (("--code",), "no value"),
        (("--cod", "x"), "unknown option '--cod'"),
        (("--code", "abc", "a:b"), "'abc' is not a SHA-256"),
        (("--code", "0" * 64, "a:b"), "no 0000"),
        (("--code", "SHA"), "no target"),
        (("--code", "SHA", "nocolon"), "Allowed: module:function"),
        (("--code", "SHA", "script:nosuch.py"), "no script 'nosuch.py' in the source folder. It holds report.py"),
        (("--code", "SHA", "script:../../x.py"), "leads outside"),
        (("--code", "SHA", "--training", "script:report.py"), "cannot read .*hyperparameters.json"),
        (("--code", "SHA", "--folders", "mode", "--training", "a:b"), "Allowed: model, output, checkpoints"),
    ],
)
def test_bad_input_ends_with_2_and_says_why(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    done = channel.run(*(channel.sha256 if word == "SHA" else word for word in arguments))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(message, done.stderr), done.stderr
    name = "failure" if "--training" in arguments else "message"
    assert re.search(message, (channel.base / "output" / name).read_text())


@pytest.mark.parametrize(
    "name",
    [
        *(
            "AWS_SECRET_ACCESS_KEY",
            "HF_TOKEN",
            "DB_PASSWORD",
            "OPENAI_API_KEY",
            "credentials",
            "MYSQL_PWD",
            "OPENAI_KEY",
        ),
        *("DB_PASS", "X_AUTH", "apiKey", "SSH_KEYS", "PGPASSWORD", "PASSPHRASE", "authorization"),
    ],
)
def test_a_reason_holds_no_secret(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "hunter2 ")
    monkeypatch.setenv(name, value := "hunter2 'and\nmore")
    message = f"no value for {value}, {value!r}: -----BEGIN RSA PRIVATE KEY-----\nMIIE"
    masked = start.masked(message)
    assert "hunter2" not in masked and "more" not in masked and "MIIE" not in masked
    assert masked.startswith("no value for ***, ")
    assert looks_secret(name) and "hunter2" not in without_secrets(message)  # as the rest of the package does


def test_the_start_file_imports_only_what_it_needs(tmp_path: Path) -> None:
    """What it imports, every step waits for."""
    channel = Channel(tmp_path, {"source/report.py": b"pass"})
    channel.write("config/resourceconfig.json", {"hosts": ["algo-1"], "current_host": "algo-1"})
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(channel.folder / "start.py")]
    done = subprocess.run(
        [*command, "--code", channel.sha256, "script:report.py"],
        env={"SAGEMAKER_BASE_DIR": str(channel.base), "TMPDIR": str(channel.temporary)},
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "json" in imported, "to read who the hosts are"
    assert {"argparse", "inspect", "tempfile", "typing", "zipfile"}.isdisjoint(imported)


def test_an_altered_archive_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    content = bytearray(channel.archive.read_bytes())
    content[600] ^= 1
    channel.archive.write_bytes(content)
    done = channel.run("--code", channel.sha256, "script:report.py")
    assert done.returncode == 2
    assert "damaged or replaced" in done.stderr
    assert [path for path in channel.temporary.rglob("*") if path.is_file()] == []
    assert "damaged or replaced" in (channel.base / "output" / "message").read_text()


def test_without_opt_ml_nothing_is_created(tmp_path: Path) -> None:
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode()})
    missing = tmp_path / "missing"
    done = channel.run("--code", channel.sha256, "script:report.py", environment={"SAGEMAKER_BASE_DIR": str(missing)})
    assert "DRIVETRAIN_FAILURE_FILE" not in json.loads(done.stdout)[1]
    assert not missing.exists()


def wheel(path: Path, files: Mapping[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_listed_wheels_are_importable_with_their_metadata(tmp_path: Path) -> None:
    name = "tiny-1.0-py3-none-any.whl"
    files = {
        "tiny/__init__.py": b"VALUE = 7",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.data/purelib/tiny_extra.py": b"VALUE = 8",
        "tiny-1.0.data/scripts/tool": b"#!python",
    }
    sha256 = wheel(tmp_path / name, files)
    program = (
        b"import tiny, tiny_extra, importlib.metadata as m; print(tiny.VALUE, tiny_extra.VALUE, m.version('tiny'))"
    )
    channel = Channel(tmp_path, {"source/main.py": program, start.WHEELS: f"{sha256}  {name}\n".encode()})
    shutil.copy(tmp_path / name, channel.folder / name)
    done = channel.run("--code", channel.sha256, "script:main.py")
    assert done.stdout == "7 8 1.0\n", done.stderr


@pytest.mark.parametrize("case", ["unlisted", "altered", "missing"])
def test_a_wheel_with_another_hash_than_the_archive_states_is_refused(tmp_path: Path, case: str) -> None:
    name = "tiny-1.0-py3-none-any.whl"
    sha256 = wheel(tmp_path / name, {"tiny.py": b""})
    listing = f"{sha256 if case != 'altered' else '0' * 64}  {name}\n" if case != "unlisted" else ""
    channel = Channel(tmp_path, {"source/report.py": REPORT.encode(), start.WHEELS: listing.encode()})
    if case != "missing":
        shutil.copy(tmp_path / name, channel.folder / name)
    done = channel.run("--code", channel.sha256, "script:report.py")
    assert done.returncode == 2 and name in done.stderr
    assert done.stdout == ""


HOSTILE: dict[str, Callable[[], bytes]] = {
    "parent": lambda: tar({"../evil": b"x"}),
    "deep parent": lambda: tar({"a/b/../../../evil": b"x"}),
    "absolute": lambda: tar({"/tmp/evil": b"x"}),
    "backslash": lambda: tar({"..\\evil": b"x"}),
    "symbolic link": lambda: tar({"l": special("l", tarfile.SYMTYPE, "/etc"), "l/evil": b"x"}),
    "hard link": lambda: tar({"l": special("l", tarfile.LNKTYPE, "/etc/passwd")}),
    "device": lambda: tar({"d": special("d", tarfile.CHRTYPE)}),
    "pipe": lambda: tar({"p": special("p", tarfile.FIFOTYPE)}),
    "file as folder": lambda: tar({"a": b"x", "a/evil": b"x"}),
    "twice": lambda: b"".join((tar({"a": b"x"})[:1024], tar({"a": b"y"}))),
    "truncated": lambda: tar({"a": b"x" * 5000})[:2000],
    "no tar": lambda: b"x" * 4096,
    "extended parent": lambda: extended("path", "../evil"),
    "extended size": lambda: extended("size", str(1 << 40)),
    "records": lambda: extended("path", "evil").replace(b"13 path=", b"99 path="),
    "GNU parent": lambda: gnu("../" * 40 + "evil"),
    "checksum": lambda: tar({"a": b"x"}).replace(b"a\0", b"b\0", 1),
    "nothing": lambda: b"",
    "long name": lambda: tar({"n" * 300: b"x"}),
}


# What tarfile reads in its own way, and which may be unpacked as long as it stays inside.
ODD: dict[str, Callable[[], bytes]] = {
    "extended number": lambda: extended("size", "-1"),
    "name for all": lambda: extended("path", "other", kind=tarfile.XGLTYPE),
    "sparse": lambda: extended("GNU.sparse.major", "1"),
    "no end": lambda: tar({"a": b"x"})[:1024],
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_archive_stays_in_its_folder(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_bytes(ODD[kind]())
    target = tmp_path / "x" / "y" / "target"
    target.mkdir(parents=True)
    unpack(str(tmp_path / "a"), str(target))
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    inside = {path for path in files if path.is_relative_to(target)}
    assert files - inside == {tmp_path / "a"}
    assert len(inside) == 1, "its one file"


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_leaves_the_folder(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_bytes(HOSTILE[kind]())
    target = tmp_path / "x" / "y" / "target"
    target.mkdir(parents=True)
    started = time.process_time()
    with pytest.raises(StartError):
        unpack(str(tmp_path / "a"), str(target))
    assert time.process_time() - started < 3  # half a second on a quiet machine
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and target not in path.parents]
    assert outside == [tmp_path / "a"]


def test_a_wheel_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("one", "two"):
            archive.writestr(name, bytes(start.FREE_BYTES // 2 + 1))
    (tmp_path / "target").mkdir()
    with pytest.raises(StartError, match="unpacks to more than"):
        unpack_wheel(str(tmp_path / "w.whl"), str(tmp_path / "target"))
    assert sum(path.stat().st_size for path in (tmp_path / "target").rglob("*")) <= start.FREE_BYTES


@pytest.mark.parametrize("name", ["f", "f" * 200], ids=["plain", "by tarfile"])
def test_an_archive_of_too_many_entries_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "a").write_bytes(tar({f"{name}{n}": b"" for n in range(3)}))
    (tmp_path / "target").mkdir()
    monkeypatch.setattr(start, "MAX_ENTRIES", 2)
    with pytest.raises(StartError, match="more than 2 entries"):
        unpack(str(tmp_path / "a"), str(tmp_path / "target"))


def test_plain_files_are_those_that_tarfile_finds() -> None:
    files = {"n" * 99: b"", "a/b.py": b"x" * 1024, "c": b"y" * 513}
    content = tar(files)
    found = start.plain_files(content)
    assert found is not None
    assert {name: content[begin:end] for name, begin, end in found} == files


def test_a_plain_archive_of_any_flavour_is_unpacked(tmp_path: Path) -> None:
    deep = "d" * 60 + "/" + "d" * 60 + "/" + "ü" * 20
    files = {
        **{"./d/é.py": b"x" * 1024, "n" * 99: b"", "run.sh": b"y" * 513, "d" * 90 + "/" + "n" * 90: b"z" * 3},
        **({deep: b"1", "large": bytes(range(256)) * 10_000}),
    }
    for number, style in enumerate((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        buffer = io.BytesIO()
        headers = {"comment": "of git archive"} if style == tarfile.PAX_FORMAT else None
        with tarfile.open(fileobj=buffer, mode="w", format=style, pax_headers=headers) as archive:
            archive.addfile(special("./", tarfile.DIRTYPE))
            archive.addfile(special("./d", tarfile.DIRTYPE))
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o755 if name == "run.sh" else 0o644
                archive.addfile(member, io.BytesIO(content))
        path = tmp_path / f"{number}"
        path.write_bytes(buffer.getvalue())
        target = tmp_path / f"target{number}"
        target.mkdir()
        unpack(str(path), str(target))
        found = {path.relative_to(target): path.read_bytes() for path in target.rglob("*") if path.is_file()}
        assert found == {Path(name): content for name, content in files.items()}
        assert os.access(target / "run.sh", os.X_OK) and not os.access(target / "large", os.X_OK)


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "x-1.data/purelib/../../evil.py"])
def test_a_hostile_wheel_is_refused(tmp_path: Path, name: str) -> None:
    wheel(tmp_path / "w.whl", {name: b"x"})
    (tmp_path / "target").mkdir()
    with pytest.raises(StartError, match="leads outside"):
        unpack_wheel(str(tmp_path / "w.whl"), str(tmp_path / "target"))
    assert not list(tmp_path.rglob("evil.py"))


def test_options_and_negative_numbers() -> None:
    assert option("max_digits", "3") == ["--max-digits", "3"]
    assert option("text", "") == ["--text", ""]
    assert option("lr", "-1") == ["--lr=-1"]


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_pythons_run_it(tmp_path: Path, version: str) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    python = str(found[0]) if found else shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode != 0:
        pytest.skip(f"no Python {version} on this machine")
    channel = Channel(tmp_path, {"source/main.py": b"import sys; print(sys.version_info[:2], sys.argv[1:])"})
    done = channel.run("--code", channel.sha256, "script:main.py", "a", python=python)
    assert done.stdout == f"({version.replace('.', ', ')}) ['a']\n", done.stderr


def test_code_goes_into_memory_only_where_its_wheels_have_room_when_unpacked(tmp_path: Path) -> None:
    assert start.has_room(str(tmp_path), str(tmp_path)) and not start.has_room(str(tmp_path / "no"), str(tmp_path))
    found = os.statvfs(tmp_path)
    with (tmp_path / "big.whl").open("wb") as file:
        file.truncate(found.f_bavail * found.f_frsize // 3)  # a hole, which takes no room
    assert not start.has_room(str(tmp_path), str(tmp_path))
