"""The package list against the folders on disk, and which way dependencies run."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("components", "infra", "pipelines", "training_scripts")
# Folder -> what of the package it may import (architecture: dependencies run one way).
ALLOWED = {
    "components": {"components"},
    "training_scripts": {"training_scripts"},
    "pipelines": {"pipelines", "components"},
    "infra": {"infra", "pipelines"},
}
HEAVY = {"torch", "tensorflow", "kfp", "boto3", "botocore", "sagemaker", "pyarrow", "numpy"}


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def test_every_folder_with_python_files_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    on_disk = {
        "drivetrain." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == on_disk


def test_every_python_file_lies_in_a_package() -> None:
    lost = [path for folder in FOLDERS for path in python_files(folder) if not (path.parent / "__init__.py").exists()]
    assert lost == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_dependencies_run_one_way(folder: str) -> None:
    for path in python_files(folder):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "drivetrain":
                assert parts[1] in ALLOWED[folder], f"{path.relative_to(ROOT)} imports {name}"


def test_components_import_only_the_standard_library_at_import_time() -> None:
    import sys

    for path in python_files("components"):
        for name in imports(path, top_level_only=True):
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or name.startswith("drivetrain.components"), f"{path}: {name}"


@pytest.mark.parametrize("folder", ["pipelines", "infra"])
def test_nothing_heavy_is_imported_by_the_compiler(folder: str) -> None:
    for path in python_files(folder):
        heavy = {name.split(".")[0] for name in imports(path, top_level_only=True)} & HEAVY
        assert not heavy, f"{path.relative_to(ROOT)} imports {heavy} at import time"


@pytest.mark.slow
def test_a_wheel_holds_every_file(tmp_path: Path) -> None:
    """Data files too: an editable install finds them even where the package list forgets them."""
    import shutil
    import subprocess
    import sys
    import zipfile

    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    # From a copy: setuptools writes into the tree that it builds, and takes what an earlier build left there.
    for name in names:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, str(tmp_path / "tree")], check=True)
    (wheel,) = tmp_path.glob("drivetrain-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("drivetrain/")}
    assert held == {f"drivetrain/{name}" for name in names if name.partition("/")[0] in FOLDERS}
