"""The package list against the folders on disk, and which way dependencies run."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LINKED = ("components", "infra", "pipelines", "training_scripts")
FOLDERS = ("drivetrain", *LINKED)
# Folder -> what of the package it may import (architecture: dependencies run one way).
INSIDE = {"base", "data", "decision", "registry", "steps"}
ROOMS = INSIDE | {"authoring", "catalog", "recommend", "rules", "spec", "targets", "triggers"}
ALLOWED = {
    "components": {"components", *INSIDE},
    "training_scripts": {"base", "training_scripts"},
    "pipelines": {"pipelines", "components", *ROOMS},
    "infra": {"infra", "pipelines", *ROOMS},
}
# Imported where they are used: the command line starts in a fraction of a second, and works without the extras.
HEAVY = {
    *("torch", "tensorflow", "kfp", "boto3", "botocore", "sagemaker", "pyarrow", "numpy", "moto"),
    *("optuna", "apscheduler", "mlflow", "mlflow_skinny", "aws_cdk", "nbformat", "nbclient"),
}
# What may import them all the same, since its classes derive from theirs; it is imported itself where it is used.
DERIVED = {
    "sagemaker": ("drivetrain/targets/sagemaker/sdk/pipeline.py", "drivetrain/targets/sagemaker/sdk/steps.py"),
    "aws_cdk": tuple(
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "infra").rglob("*.py")
        if path.name not in ("app.py", "options.py") and path.parent.name != "starter"
    ),
}
# Targets know nothing of each other, but that the local one executes SageMaker's documents.
SHARED = "drivetrain.targets.sagemaker.document"
# What requirements-hashed.txt is for (`make hashes`).
HASHED_EXTRAS = ("s3", "serve")
MAX_LINES = 400
# Longer ones, with their lengths: they may only shrink, and leave the list when they are short enough.
LONGER = {"drivetrain/steps/start.py": 442}


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def imports(path: Path, *, top_level_only: bool = False) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in _at_import_time(tree) if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {str(named.value) for named in node.args[:1] if isinstance(named, ast.Constant)}
    return frozenset(found)


def _at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: bodies of functions and what is for type checkers do not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _at_import_time(child)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_folder_with_python_files_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    on_disk = {
        ".".join(dict.fromkeys(("drivetrain", *path.parent.relative_to(ROOT).parts)))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == on_disk


def test_no_room_has_the_name_of_an_authors_word() -> None:
    """`from drivetrain import step` gives the module once a room `drivetrain.step` is imported."""
    import drivetrain

    assert {path.stem for path in (ROOT / "drivetrain").iterdir()}.isdisjoint(drivetrain.__all__)


def test_the_folders_beside_the_library_are_links_in_it() -> None:
    links = {path.name: path.readlink().as_posix() for path in (ROOT / "drivetrain").iterdir() if path.is_symlink()}
    assert links == {name: f"../{name}" for name in LINKED}


def test_every_python_file_lies_in_a_package() -> None:
    lost = [path for folder in FOLDERS for path in python_files(folder) if not (path.parent / "__init__.py").exists()]
    assert lost == []


@pytest.mark.slow_cases(but=["infra", "components"])
@pytest.mark.parametrize("folder", LINKED)
def test_dependencies_run_one_way(folder: str) -> None:
    for path in python_files(folder):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "drivetrain" and len(parts) > 1:
                assert parts[1] in ALLOWED[folder], f"{path.relative_to(ROOT)} imports {name}"


def test_components_import_only_the_standard_library_at_import_time() -> None:
    import sys

    for path in (
        *python_files("components"),
        *(path for room in INSIDE for path in python_files(f"drivetrain/{room}")),
    ):
        for name in imports(path, top_level_only=True):
            top, _, rest = name.partition(".")
            allowed = {"components", *INSIDE}
            assert top in sys.stdlib_module_names or rest.split(".")[0] in allowed, f"{path}: {name}"


@pytest.mark.parametrize("folder", ["pipelines", "infra"])
def test_nothing_heavy_is_imported_by_the_compiler(folder: str) -> None:
    for path in python_files(folder):
        heavy = {name.split(".")[0] for name in imports(path, top_level_only=True)} & HEAVY
        heavy = {name for name in heavy if shown(path) not in DERIVED.get(name, ())}
        assert not heavy, f"{shown(path)} imports {heavy} at import time"


def test_imports_are_found_wherever_a_module_makes_them(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import importlib\nimport one.part\nfrom two import name\n"
        "if TYPE_CHECKING:\n    import typed\n"
        "try:\n    import three\nexcept ImportError:\n    pass\n"
        "four = importlib.import_module('four')\n"
        "class Owner:\n    import five\n    def method(self):\n        import later\n"
    )
    assert imports(file, top_level_only=True) == {"importlib", "one.part", "two", "three", "four", "five"}
    assert imports(file) >= {"typed", "later"}


@pytest.mark.slow
def test_nothing_but_the_command_line_imports_the_command_line() -> None:
    for folder in FOLDERS:
        for path in python_files(folder):
            if "cli" not in path.relative_to(ROOT).parts:
                found = [name for name in imports(path) if f"{name}.".startswith("drivetrain.cli.")]
                assert not found, f"{shown(path)} imports {found}"


@pytest.mark.parametrize(("one", "other"), [("local", "sagemaker"), ("sagemaker", "local")])
def test_targets_do_not_import_each_other(one: str, other: str) -> None:
    for path in python_files(f"drivetrain/targets/{one}"):
        found = {name for name in imports(path) if f"{name}.".startswith(f"drivetrain.targets.{other}.")}
        assert not {name for name in found if not name.startswith(SHARED)}, f"{shown(path)} imports {found}"


def test_files_are_short() -> None:
    """A file that does one thing fits in the head; what is longer is split by what it does."""
    lengths = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in python_files(folder)
    }
    longer = {name: length for name, length in lengths.items() if length > MAX_LINES}
    assert longer.keys() == LONGER.keys()
    assert [name for name, length in longer.items() if length > LONGER[name]] == []


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
    for name in LINKED:
        (tmp_path / "tree" / "drivetrain" / name).symlink_to(f"../{name}")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, str(tmp_path / "tree")], check=True)
    (wheel,) = tmp_path.glob("drivetrain-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("drivetrain/")}
    wanted = {f"drivetrain/{name}" for name in names if name.partition("/")[0] in LINKED}
    assert held == wanted | {name for name in names if name.startswith("drivetrain/") and (ROOT / name).is_file()}


def test_what_is_installed_by_hashes_is_what_the_constraints_pin() -> None:
    lines = (ROOT / "requirements-hashed.txt").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    hashed = {Requirement(line.split(" --hash=")[0]).name: line for line in lines if not line.startswith("#")}
    known = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    pinned = {canonicalize_name(line.partition("==")[0]): line.strip() for line in known}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [
        *project["dependencies"],
        *(one for extra in HASHED_EXTRAS for one in project["optional-dependencies"][extra]),
    ]
    assert {Requirement(one).name for one in asked} <= hashed.keys()
    for name, line in hashed.items():
        requirement, *hashes = line.split(" --hash=sha256:")
        assert hashes and all(re.fullmatch("[0-9a-f]{64}", one.strip()) for one in hashes), name
        if name in pinned:
            assert requirement.split(";")[0].strip() == pinned[name]
        else:  # of other systems
            assert not Requirement(requirement).marker.evaluate({"sys_platform": "linux", "platform_system": "Linux"})
