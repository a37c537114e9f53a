from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.steps.user_code import check_script, code_folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_in_a_shell_code_is_in_the_current_or_given_folder(tmp_path: Path) -> None:
    assert code_folder(None) == tmp_path / "here"
    (tmp_path / "mine").mkdir()
    assert code_folder(Path("../mine")) == tmp_path / "mine"


def test_in_a_container_code_is_the_shipped_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVETRAIN_SOURCE", str(tmp_path / "code" / "source"))
    assert code_folder(None) == tmp_path / "code" / "source"


def test_in_a_container_an_input_is_copied_and_its_scripts_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    monkeypatch.setenv("DRIVETRAIN_SOURCE", str(tmp_path / "code" / "source"))
    channel = tmp_path / "channel"
    write(channel / "bin" / "run.sh", "#!/bin/sh\n")
    write(channel / "settings.yaml", "epochs: 3\n")
    folder = code_folder(channel)
    assert folder == tmp_path / "script"
    assert os.access(folder / "bin" / "run.sh", os.X_OK)
    assert not (folder / "settings.yaml").stat().st_mode & 0o111
    (folder / "settings.yaml").write_text("changed")
    assert (channel / "settings.yaml").read_text() == "epochs: 3\n"
    check_script("bin/run.sh", folder)


def test_an_invalid_source_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--source .*train\.py is no folder"):
        code_folder(write(tmp_path / "train.py", ""))


@pytest.mark.parametrize("script", ["train.py", "src/train.py", "run.sh", "bin/run", "spaced"])
def test_what_can_be_started(script: str, tmp_path: Path) -> None:
    first = "#! /bin/sh -e\n" if script == "spaced" else "#!/bin/sh\n"
    write(tmp_path / script, "" if script.endswith(".py") else first, 0o644 if script.endswith(".py") else 0o755)
    check_script(script, tmp_path)


@pytest.mark.parametrize(
    ("script", "text", "mode", "message"),
    [
        ("../outside.py", "", 0o644, r"'\.\./outside\.py' is not in the folder of the code.*bin/train\.sh"),
        ("/bin/sh", None, 0, "'/bin/sh' is not in the folder"),
        ("-c", None, 0, "'-c' is not in the folder"),
        ("a b.py", "", 0o644, "'a b.py' is not in the folder"),
        ("", None, 0, "'' is not in the folder"),
        ("link.py", None, 0, "'link.py' is not in the folder"),
        ("trian.py", None, 0, r"no script 'trian\.py' in .*\(it holds link\.py, train\.py\)\.$"),
        ("run.sh", None, 0, r"no script 'run\.sh' .*Only Python files travel .*source="),
        ("plain.sh", "#!/bin/sh\n", 0o644, r"'plain\.sh' is not executable. Make it so: chmod \+x .*/plain\.sh"),
        ("no_first.sh", "echo hello\n", 0o755, r"'no_first\.sh' does not say what runs it.*#!/bin/bash"),
        ("empty.sh", "#!\n", 0o755, r"begins with '#!', but there is no such program"),
        ("windows.sh", "#!/bin/sh\r\necho\r\n", 0o755, "begins with .*Give the file Unix line ends"),
        ("other.sh", "#!/opt/nowhere/bash\n", 0o755, "'#!/opt/nowhere/bash', but there is no such program"),
    ],
)
def test_what_cannot_be_started_is_one_message(
    script: str, text: str | None, mode: int, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    write(folder / "train.py", "")
    (folder / "link.py").symlink_to(write(tmp_path / "elsewhere.py", ""))
    if text is not None:
        write(folder / script, text, mode)
    with pytest.raises(InputError, match=message):
        check_script(script, folder)
