"""The archive of code that travels: the bytes that tarfile would write, whatever the names."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from drivetrain.assets.assets import CodeArchive
from drivetrain.steps.start import plain_files
from tests.fixtures.used_files import used_files


@pytest.mark.parametrize("wheels", [None, {"a.whl": "0" * 64}])
def test_an_archive_is_what_tarfile_writes_of_its_members(wheels: dict[str, str] | None, tmp_path: Path) -> None:
    texts = {
        "one.py": "x = 1\n",
        "empty.py": "",
        "block.py": "#" * 512,
        f"{'long' * 30}.py": "y = 2\n",
        "größe.py": "z\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    archive = CodeArchive(used_files(tmp_path), wheels).content
    again = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as given,
        tarfile.open(fileobj=again, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        members = given.getmembers()
        for member in members:
            plain = tarfile.TarInfo(member.name)
            plain.size = member.size
            written.addfile(plain, given.extractfile(member))
    assert again.getvalue() == archive
    names = [member.name for member in members]
    assert names == sorted(names)
    assert {f"source/{name}" for name in texts} == {name for name in names if name.startswith("source/")}


def test_the_start_file_reads_an_archive_without_tarfile(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = 1\n", encoding="utf-8")
    content = CodeArchive(used_files(tmp_path), {"tiny.whl": "0" * 64}).content
    assert isinstance(content, bytes)
    files = plain_files(content)
    assert files is not None
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert [name for name, _, _ in files] == archive.getnames()
    assert {name: content[begin:end] for name, begin, end in files}["source/one.py"] == b"x = 1\n"
