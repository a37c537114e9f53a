"""Wheels for what an image lacks: which fit, where they come from, and what is said when there is none."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.metadata import parse_email
from packaging.utils import canonicalize_version

from drivetrain.assets.image import Image
from drivetrain.assets.requirements import normal
from drivetrain.assets.wheel_files import WheelFile, installed_wheel, pack, read_metadata
from drivetrain.assets.wheels import find_wheels
from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.images import stock_image

IMAGE = stock_image("us-east-1", gpu=False)  # CPython 3.12, glibc 2.34


def write_wheel(
    folder: Path,
    name: str = "fancy",
    version: str = "1.0",
    tag: str = "py3-none-any",
    requires: tuple[str, ...] = (),
    extra: dict[str, str] | None = None,
    metadata_name: str | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    lines = ["Metadata-Version: 2.1", f"Name: {metadata_name or name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\nRequires-Dist: prose\n")
        for member, text in (extra or {}).items():
            archive.writestr(member, text)
    return path


def names(needs: tuple[str, ...], folder: Path, image: Image = IMAGE) -> list[str]:
    return [wheel.name for wheel in find_wheels(needs, image, folder, Path("/"))]


@pytest.mark.parametrize(
    ("tag", "runs"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("py2-none-any", False),
        ("py311-none-any", True),
        ("py313-none-any", False),
        ("cp312-cp312-manylinux_2_28_x86_64", True),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp313-cp313-manylinux_2_28_x86_64", False),
        ("cp38-abi3-manylinux2014_x86_64", True),
        ("cp313-abi3-manylinux2014_x86_64", False),
        ("cp312-cp312-manylinux_2_34_x86_64", True),
        ("cp312-cp312-manylinux_2_35_x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
        ("cp312-cp312-macosx_11_0_arm64", False),
        ("cp312-cp312-win_amd64", False),
        ("cp312-none-manylinux1_x86_64", True),
        ("py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64", True),
        ("py3-none-linux_x86_64", True),
    ],
)
def test_a_wheel_travels_only_when_it_runs_in_the_image(tmp_path: Path, tag: str, runs: bool) -> None:
    write_wheel(tmp_path, tag=tag)
    if runs:
        assert names(("fancy",), tmp_path) == [f"fancy-1.0-{tag}.whl"]
    else:
        with pytest.raises(UserError, match=r"no wheel of it that fits \(CPython 3\.12, x86-64\)"):
            names(("fancy",), tmp_path)


def test_the_newest_suitable_version_is_chosen(tmp_path: Path) -> None:
    for version in ("0.9", "1.10", "1.9", "2.0"):
        write_wheel(tmp_path, version=version)
    assert names(("fancy<2",), tmp_path) == ["fancy-1.10-py3-none-any.whl"]
    assert names(("Fancy",), tmp_path) == ["fancy-2.0-py3-none-any.whl"]


def test_requirements_of_a_wheel_are_shipped_unless_in_the_image(tmp_path: Path) -> None:
    requires = (
        "numpy",
        "helper>=2 ; python_version >= '3.8'",
        "pywin32; sys_platform == 'win32'",
        "rare; extra == 'x'",
    )
    write_wheel(tmp_path, requires=requires)
    write_wheel(tmp_path, "helper", "2.1", requires=("fancy",))
    write_wheel(tmp_path, "rare")
    write_wheel(tmp_path, "unwanted")
    assert names(("fancy",), tmp_path) == ["fancy-1.0-py3-none-any.whl", "helper-2.1-py3-none-any.whl"]
    assert "rare-1.0-py3-none-any.whl" in names(("fancy[x]",), tmp_path)


def test_a_requirement_of_a_wheel_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_wheel(tmp_path, requires=("helper>=2",))
    write_wheel(tmp_path, "helper", "1.9")
    with pytest.raises(UserError, match=r"^'helper>=2' is not in the image pytorch:2\.13\.0-cpu"):
        names(("fancy",), tmp_path)


def test_two_needs_that_no_one_wheel_meets_are_refused(tmp_path: Path) -> None:
    write_wheel(tmp_path, version="1.0")
    write_wheel(tmp_path, "other", requires=("fancy<1",))
    with pytest.raises(UserError, match=r"'fancy<1' is needed, but fancy-1\.0-py3-none-any\.whl is what"):
        names(("fancy", "other"), tmp_path)


def test_the_message_has_the_command_that_fetches_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_wheels(("no-such>=1",), IMAGE, None, tmp_path)
    message = str(caught.value)
    assert message.splitlines()[1].strip() == (
        "pip download --only-binary=:all: --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 "
        "--platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest wheels 'no-such>=1'"
    )
    assert message.endswith("and set deployment.targets.sagemaker.wheels: wheels")
    (tmp_path / "my wheels").mkdir()
    with pytest.raises(UserError, match="--dest 'my wheels' no-such"):
        find_wheels(("no-such",), IMAGE, "my wheels", tmp_path)


def test_packages_without_a_wheel_on_pypi_are_built_in_the_image(tmp_path: Path) -> None:
    said = r"Get it with\n  python -m drivetrain\.infra\.horovod\.build torch\nin that image .*\.wheels: wheels$"
    with pytest.raises(UserError, match=said):
        find_wheels(("horovod",), IMAGE, None, tmp_path)
    with pytest.raises(UserError, match=r"horovod\.build tensorflow\nin that image"):
        find_wheels(("horovod",), replace(IMAGE, framework="tensorflow"), None, tmp_path)


def test_a_missing_wheels_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"deployment\.targets\.sagemaker\.wheels is 'nowhere': no such folder"):
        find_wheels(("fancy",), IMAGE, "nowhere", tmp_path)


def test_a_relative_folder_starts_at_the_pipeline_s_file(tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels")
    [wheel] = find_wheels(("fancy",), IMAGE, "wheels", tmp_path)
    assert wheel.content == tmp_path / "wheels" / wheel.name


@pytest.mark.parametrize("member", ["../outside.py", "/etc/passwd", "a\\..\\b.py", "fancy-1.0.data/purelib/../../b.py"])
def test_a_wheel_with_paths_outside_its_folder_is_refused(tmp_path: Path, member: str) -> None:
    write_wheel(tmp_path, extra={member: ""})
    with pytest.raises(UserError, match="leads out of the folder"):
        names(("fancy",), tmp_path)


def test_a_wheel_that_contradicts_its_name_is_refused(tmp_path: Path) -> None:
    write_wheel(tmp_path, metadata_name="evil")
    with pytest.raises(UserError, match=r"holds evil 1\.0, not what its name says"):
        names(("fancy",), tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "Name: Fancy_Name\nVersion: 1.0.0\nRequires-Dist: a>=1\nRequires-Dist: b ; extra == 'x'",
        "Name: fancy\nVersion: 1.0.0-RC1",
        "Name: fancy\nVersion: v01.2\nSummary: größer\nRequires-Dist: a",
        "Version: 2",
        "",
    ],
)
def test_metadata_say_what_packaging_reads_in_them(lines: str) -> None:
    content = f"Metadata-Version: 2.1\n{lines}\n\nRequires-Dist: prose\n".encode()
    fields, _ = parse_email(content)
    version = canonicalize_version(fields.get("version", ""), strip_trailing_zero=False)
    expected = WheelFile(normal(fields.get("name", "")), version, tuple(fields.get("requires_dist", ())))
    assert read_metadata(content) == expected


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, extra={"fancy/data.txt": "x" * 1000})
    content = bytearray(path.read_bytes())
    place = content.index(b"x" * 1000)
    content[place] = ord("y")
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"is damaged at fancy/data\.txt"):
        names(("fancy",), tmp_path)
    path.write_bytes(content[:100])
    with pytest.raises(UserError, match="is no wheel that can be read"):
        names(("fancy",), tmp_path)
    (tmp_path / "fancy.whl").write_bytes(b"")
    with pytest.raises(UserError, match="is not the name of a wheel"):
        names(("fancy",), tmp_path)


def test_an_installed_distribution_that_fits_is_packed_to_the_same_bytes() -> None:
    [wheel] = find_wheels(("safetensors",), IMAGE, None, Path("/"))
    assert isinstance(wheel.content, bytes)
    first = hashlib.sha256(wheel.content).digest()
    pack.cache_clear()
    [again] = find_wheels(("safetensors",), IMAGE, None, Path("/"))
    assert isinstance(again.content, bytes)
    assert hashlib.sha256(again.content).digest() == first


def test_a_packed_distribution_is_a_whole_wheel_again(tmp_path: Path) -> None:
    [wheel] = find_wheels(("safetensors",), IMAGE, None, Path("/"))
    assert isinstance(wheel.content, bytes)
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        members = archive.namelist()
        assert members == sorted(members)
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        [record] = [name for name in members if name.endswith(".dist-info/RECORD")]
        listed = {line.split(",")[0] for line in archive.read(record).decode().splitlines()}
        assert listed == set(members)
        assert not any("__pycache__" in name or name.endswith(("INSTALLER", "REQUESTED")) for name in members)
    # It passes the checks of one from a folder, too.
    (tmp_path / wheel.name).write_bytes(wheel.content)
    assert names(("safetensors",), tmp_path) == [wheel.name]


def test_a_build_for_this_python_alone_does_not_travel(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'pyyaml' is not in the image .* in this environment"):
        find_wheels(("pyyaml",), stock_image("us-east-1", False, version="2.10"), None, tmp_path)


def test_a_distribution_that_is_not_from_a_wheel_does_not_travel() -> None:
    assert installed_wheel("drivetrain") is None
    assert installed_wheel("no-such-distribution") is None


def test_a_changed_installation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [wheel] = find_wheels(("safetensors",), IMAGE, None, Path("/"))
    assert isinstance(wheel.content, bytes)
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "safetensors" / "__init__.py").write_text("changed")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=r"safetensors/__init__\.py is not the file that was installed\. Reinstall"):
        find_wheels(("safetensors",), IMAGE, None, Path("/"))
