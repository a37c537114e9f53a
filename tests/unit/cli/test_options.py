from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.options import data, image_commands, pairs, selected, stubs


def test_pairs() -> None:
    assert pairs("--param", ["a=1", "b=", "c=x=y"], "NAME=VALUE") == {"a": "1", "b": "", "c": "x=y"}
    assert pairs("--param", None, "NAME=VALUE") == {}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_a_pair_needs_a_name_and_a_sign(text: str) -> None:
    with pytest.raises(UserError, match="give NAME=VALUE"):
        pairs("--param", [text], "NAME=VALUE")


def test_a_name_is_given_once() -> None:
    with pytest.raises(UserError, match="--param a is given twice"):
        pairs("--param", ["a=1", "a=2"], "NAME=VALUE")


def test_stubs(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text('{"ModelName": "m"}')
    assert stubs([f"deploy={file}"]) == {"deploy": {"ModelName": "m"}}
    assert stubs(["deploy", "notify="]) == {"deploy": {}, "notify": {}}
    file.write_text("[]")
    with pytest.raises(UserError, match="must hold a JSON object"):
        stubs([f"deploy={file}"])
    file.write_text("{,}")
    with pytest.raises(UserError, match="line 1"):
        stubs([f"deploy={file}"])
    with pytest.raises(UserError, match="No such file"):
        stubs([f"deploy={tmp_path / 'gone.json'}"])


def test_an_image_command_is_split_without_a_shell() -> None:
    assert image_commands(["img:1=python 'my script.py' --x '$(rm -rf /)'"]) == {
        "img:1": ("python", "my script.py", "--x", "$(rm -rf /)")
    }
    with pytest.raises(UserError, match="empty"):
        image_commands(["img= "])
    with pytest.raises(UserError, match="no closing quotation"):
        image_commands(["img='x"])


def test_a_relative_program_is_found_from_the_folder_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("serve.py", "python", "gone"):
        (tmp_path / name).touch()
    (tmp_path / "gone").unlink()
    words = image_commands(["img=python serve.py ./python gone.py ./gone"])["img"]
    assert words == ("python", str(tmp_path / "serve.py"), str(tmp_path / "python"), "gone.py", "./gone")


def test_local_data(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    assert data([f"s3://bucket/dt=2026-11-20/={folder}"]) == {"s3://bucket/dt=2026-11-20/": str(folder)}
    with pytest.raises(UserError, match="there is no file or folder"):
        data([f"s3://bucket/x={tmp_path / 'gone'}"])
    with pytest.raises(UserError, match="give s3://BUCKET/KEY=PATH"):
        data([f"bucket/x={folder}"])
    with pytest.raises(UserError, match="there is no file or folder 'gone'"):
        data(["model/churn=gone"])
    with pytest.raises(UserError, match=r"'\.\./x' is no name of a model"):
        data([f"model/../x={folder}"])


def test_selected_steps_are_separated_by_commas_and_unique() -> None:
    assert selected(None, None) == ()
    assert selected(["train, evaluate", "train"], "latest") == ("train", "evaluate")
    with pytest.raises(UserError, match="--select: a name is empty"):
        selected(["train,"], None)
    with pytest.raises(UserError, match=r"Give --select STEP,\.\.\., too"):
        selected(None, "latest")
