"""Archives that come with a definition or a model: nothing is written outside, bombs are refused within a second."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import drivetrain
from tests.contract.bad_input.place import Place, Ran, definition, processing, training

Member = tuple[str, bytes, str | bytes]
START = Path(drivetrain.__file__).parent / "steps" / "start.py"

EVIL: dict[str, tuple[list[Member], str]] = {
    "symlink": ([("a", tarfile.SYMTYPE, "/etc/passwd")], "link"),
    "through a symlink": ([("a", tarfile.SYMTYPE, "/tmp"), ("a/owned", tarfile.REGTYPE, b"x")], "link"),
    "hard link": ([("a", tarfile.LNKTYPE, "/etc/passwd")], "link"),
    "device": ([("null", tarfile.CHRTYPE, "")], "special file|device"),
    "pipe": ([("pipe", tarfile.FIFOTYPE, "")], "special file|device"),
    "absolute": ([("ABSOLUTE/owned", tarfile.REGTYPE, b"x")], "outside"),
    "slip": ([("../../../../owned", tarfile.REGTYPE, b"x")], "outside"),
}


def packed(members: list[Member], *, compressed: bool = True) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz" if compressed else "w") as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.devmajor, member.devminor = 1, 3
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.linkname = content
                archive.addfile(member)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Half a gigabyte of zeros in half a megabyte."""
    size = 512 << 20
    member = tarfile.TarInfo("zeros")
    member.size = size
    # One megabyte of zeros compressed alone is the same bytes each time, and gzip members may be joined.
    header, zeros = gzip.compress(member.tobuf(), 9), gzip.compress(bytes(1 << 20), 9)
    return header + zeros * (size >> 20)


def run_code(place: Place, archive: bytes) -> Ran:
    """As the code of a step: an archive whose hash is right, since whoever sends it also wrote the definition."""
    digest = hashlib.sha256(archive).hexdigest()
    place.object("bucket/code/start.py", START.read_bytes())
    place.object(f"bucket/code/{digest}.tar", archive)
    step = processing("step", "", inputs={"code": "s3://bucket/code/"})
    step["Arguments"]["AppSpecification"] |= {
        "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/start.py"],
        "ContainerArguments": ["--code", digest, "script:program.py"],
    }
    return place.run(definition(step))


def run_submitted(place: Place, archive: bytes) -> Ran:
    """As the source of a training job in the toolkit's convention."""
    uri = place.object("bucket/sourcedir.tar.gz", archive)
    hyperparameters = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": json.dumps(uri)}
    step = training("step", "", hyperparameters)
    del step["Arguments"]["AlgorithmSpecification"]["ContainerEntrypoint"]
    return place.run(definition(step))


def evil(name: str, place: Place, *, compressed: bool = True) -> bytes:
    members, _ = EVIL[name]
    absolute = str(place.folder / "absolute")
    placed = [(path.replace("ABSOLUTE", absolute), kind, content) for path, kind, content in members]
    return packed(placed, compressed=compressed)


def assert_refused(place: Place, ran: Ran, allowed: str) -> None:
    place.failed_by_input(ran, "step")
    reason: Any = place.step("step")[1]
    assert any(word in reason for word in allowed.split("|")), reason
    assert not list(place.folder.rglob("owned")) and not Path("/tmp/owned").exists()
    assert place.files() == set()


@pytest.mark.parametrize("name", EVIL)
def test_source_archives_cannot_leave_their_folder(place: Place, name: str) -> None:
    assert_refused(place, run_submitted(place, evil(name, place)), EVIL[name][1])


@pytest.mark.parametrize("name", ["through a symlink", "absolute", "slip"])
def test_code_archives_cannot_leave_their_folder(place: Place, name: str) -> None:
    assert_refused(place, run_code(place, evil(name, place, compressed=False)), EVIL[name][1])


def test_decompression_bombs_are_refused(place: Place, bomb: bytes) -> None:
    """(The code of a step is not compressed: what it unpacks to is as large as what was sent.)"""
    ran = run_submitted(place, bomb)
    assert_refused(place, ran, "holds more than")
    assert ran.cpu_s <= 1.0


@pytest.mark.parametrize("content", [b"", b"rubbish" * 1000, packed([("a", tarfile.REGTYPE, bytes(50_000))])[:-30]])
def test_invalid_archives_are_refused(place: Place, content: bytes) -> None:
    assert_refused(place, run_submitted(place, content), "not a whole tar.gz archive|not a whole tar archive")


@pytest.mark.parametrize("program", ["register_model", "evaluate"])
@pytest.mark.parametrize("name", [*EVIL, "bomb"])
def test_models(place: Place, bomb: bytes, program: str, name: str) -> None:
    """Programs that open a model refuse it, before anything of it is used."""
    archive = place.write("model/model.tar.gz", bomb if name == "bomb" else evil(name, place))
    arguments = {"register_model": ["--group", "g", "--registry", f"local:{place.folder / 'r.db'}"]}
    folder = place.folder / "data"
    folder.mkdir()
    arguments["evaluate"] = ["--data", str(folder)]
    ran = place.python("-m", f"drivetrain.components.{program}", "--model", archive.parent, *arguments[program])
    place.error_of(ran)
    assert any(word in ran.err for word in ("more than" if name == "bomb" else EVIL[name][1]).split("|")), ran.err
    assert not list(place.folder.rglob("owned")) and not Path("/tmp/owned").exists()
    assert ran.cpu_s <= 1.0
    assert place.files() == {"model/model.tar.gz"}
