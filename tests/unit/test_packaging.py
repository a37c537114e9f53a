"""The package list against the folders on disk, and which way dependencies run."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LINKED = ("components", "infra", "pipelines", "training_scripts")
FOLDERS = ("drivetrain", *LINKED)
# The rooms of the package, the lowest first: a file imports from lower rows and from its own room, nothing else, also
# where a type checker alone would see it. The longest name that fits is a file's room.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("base", "inference_server"),
    ("aws",),
    ("catalog",),
    ("data", "registry", "steps"),
    ("decision",),
    ("training",),
    ("components", "training_scripts"),
    ("spec",),
    ("recommend",),
    ("processes",),
    ("run_store",),
    ("triggers",),
    ("rules",),
    ("authoring",),
    ("native",),
    ("resolving",),
    ("assets",),
    ("deploying",),
    ("targets",),
    ("targets.sagemaker.document", "targets.sagemaker.settings"),
    ("targets.sagemaker",),
    ("targets.sagemaker.run",),
    ("targets.kubeflow", "targets.sagemaker.target"),
    ("studio",),
    ("telling",),
    ("trackers",),
    ("operations",),
    ("schemas", "serve", "ui"),
    ("client",),
    ("cli", "infra", "pipelines"),
)
ROOMS = {room: height for height, row in enumerate(LAYERS) for room in row}
# What travels into containers: it imports the standard library at import time, and nothing else of ours.
# The declarations of the programs' parameters, of which components are made: they lie beside what they configure.
WHAT_PROGRAMS_ARE_TOLD = {
    "drivetrain.training.calibration_config",
    "drivetrain.training.config",
    "drivetrain.training.evaluation.settings",
    "drivetrain.training.prediction.settings",
    "drivetrain.training.table_config",
}
INSIDE = ("aws", "base", "components", "data", "decision", "registry", "steps")
TRAVELS = {*INSIDE, "training", "training_scripts"}
# Imported where they are used: the command line starts in a fraction of a second, and works without the extras.
HEAVY = {
    *("torch", "tensorflow", "kfp", "boto3", "botocore", "sagemaker", "polars", "pyarrow", "numpy", "moto"),
    *("optuna", "apscheduler", "mlflow", "mlflow_skinny", "wandb", "tensorboard", "aws_cdk", "nbformat", "nbclient"),
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
# What requirements-hashed.txt is for (`make hashes`).
HASHED_EXTRAS = ("s3", "serve")
MAX_LINES = 400
# Longer ones, with their lengths: they may only shrink, and leave the list when they are short enough.
LONGER = {"drivetrain/steps/start.py": 470}


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Wherever they are in the text. No expression holds one, so that most of the tree need not be walked."""
    found = list[ast.Import | ast.ImportFrom]()
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, field, ())
    return tuple(found)


def name_of(node: ast.expr) -> str:
    """The last word of a dotted name; ast.unparse, which gives all of it, takes longer than everything else here."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def imports(path: Path, *, top_level_only: bool = False) -> frozenset[str]:
    text = path.read_text(encoding="utf-8")
    found: set[str] = set()
    nodes: Iterable[ast.AST] = import_statements(path)
    if top_level_only or "import_module" in text:
        tree = ast.parse(text)
        nodes = _at_import_time(tree) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
        elif isinstance(node, ast.Call) and name_of(node.func).endswith("import_module"):
            found |= {str(named.value) for named in node.args[:1] if isinstance(named, ast.Constant)}
    return frozenset(found)


def _at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: bodies of functions and what is for type checkers do not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
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


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return name if name.partition(".")[0] == "drivetrain" else f"drivetrain.{name}"


@cache
def modules() -> Mapping[str, Path]:
    return {module_name(path): path for folder in FOLDERS for path in python_files(folder)}


def room_of(module: str) -> str:
    parts = module.split(".")[1:]
    return next((name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in ROOMS), "")


@cache
def of_ours(module: str) -> frozenset[str]:
    """The modules of ours that one imports, wherever in its text; the package itself has the authors' names alone."""
    found: set[str] = set()
    for node in import_statements(modules()[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules() else node.module for name in names}
    return frozenset(found & modules().keys() - {"drivetrain", module})


def test_every_module_has_a_room() -> None:
    assert [module for module in modules() if module != "drivetrain" and not room_of(module)] == []
    assert {room_of(module) for module in modules()} == {"", *ROOMS}


def test_nothing_imports_upwards() -> None:
    climbs: set[tuple[str, str]] = set()
    for module in modules().keys() - {"drivetrain"}:
        for used in of_ours(module):
            mine, its = room_of(module), room_of(used)
            if mine != its and ROOMS[its] >= ROOMS[mine]:
                climbs.add((module, used))
    assert climbs == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({module: of_ours(module) for module in modules()}).prepare()  # raises CycleError, with the circle


@pytest.mark.slow
def test_types_are_checked_in_every_room(tmp_path: Path) -> None:
    """An error planted in a file of each room that nothing imports."""
    import json
    import shutil
    import subprocess
    import sys

    planted = set()
    rooms = [path.parent for path in (ROOT / "drivetrain").glob("*/__init__.py") if not path.parent.is_symlink()]
    for room in [*rooms, *(ROOT / name for name in LINKED)]:
        file = tmp_path / room.relative_to(ROOT) / "planted.py"
        file.parent.mkdir(parents=True)
        file.write_text('x: int = "no number"\n')
        planted.add(shown(room / "planted.py"))
    for name in LINKED:
        (tmp_path / "drivetrain" / name).symlink_to(f"../{name}")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [Path(sys.executable).with_name("pyright"), "--outputjson", "--pythonpath", sys.executable, "--project"]
    done = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False)
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    assert {Path(each["file"]).relative_to(tmp_path).as_posix() for each in found} == planted
    assert len(found) == len(planted)


@pytest.mark.nightly
def test_an_editor_finds_every_name_that_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As jedi does it, from the text of a file where it lies (IPython brings it)."""
    import jedi

    # It forgets files of which it still holds parts, once it has read 600.
    monkeypatch.setattr("parso.cache._CACHED_SIZE_TRIGGER", 10**6)
    project = jedi.Project(ROOT)
    lost: list[str] = []
    for module, path in modules().items():
        script = jedi.Script(path=path, project=project)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drivetrain":
                for alias in node.names:
                    found = script.goto(alias.lineno, alias.col_offset + 1, follow_imports=True)
                    if not found or found[0].module_path is None:
                        lost.append(f"{module}, line {alias.lineno}: {alias.name}")
    assert lost == []


def test_targets_know_nothing_of_each_other() -> None:
    known = {
        (module, used)
        for module in modules()
        for used in of_ours(module)
        if {target_of(module), target_of(used)} == {"kubeflow", "sagemaker"}
    }
    assert known == set()


def target_of(module: str) -> str:
    return module.split(".")[2] if module.startswith("drivetrain.targets.") else ""


# Above the targets nothing knows a single one, but for the document, which is executed here and edited in Studio. These
# still do; the list may only shrink.
OF_ONE_TARGET = {
    "drivetrain.cli.definition.compile": "which images are not patched any more",
    "drivetrain.cli.definition.import_": "definitions of SageMaker's, read",
    "drivetrain.cli.deployed": "where deployments are",
    "drivetrain.cli.local.triggers": "the account of a role",
    "drivetrain.operations.operands": "a definition with its edits",
    "drivetrain.infra": "the stack of an account, the manifests of a cluster",
    "drivetrain.studio": "SageMaker Studio's edits",
}


def test_targets_reach_training_by_a_command_line_alone() -> None:
    targets = {shown(path): imports(path) for path in python_files("drivetrain/targets")}
    assert len(targets) > 100
    assert not [
        path for path, names in targets.items() if any(name.startswith("drivetrain.training") for name in names)
    ]


def test_nothing_above_the_targets_knows_a_single_one() -> None:
    above = {room for room, height in ROOMS.items() if height > ROOMS["targets.kubeflow"]}
    shared = ("targets", "targets.sagemaker.run", "targets.sagemaker.document")
    knowing = {
        module
        for module in modules()
        if room_of(module) in above
        for used in of_ours(module)
        if (room := room_of(used)).partition(".")[0] == "targets" and room not in shared
    }
    found = {module: [name for name in OF_ONE_TARGET if f"{module}.".startswith(f"{name}.")] for module in knowing}
    assert [module for module, names in found.items() if not names] == []
    assert {name for names in found.values() for name in names} == set(OF_ONE_TARGET)


def test_the_command_line_names_no_target() -> None:
    """In what it decides by: help, examples and names of extras may."""
    compared = {
        (shown(path), node.value)
        for path in (ROOT / "drivetrain" / "cli").rglob("*.py")
        for comparison in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(comparison, ast.Compare)
        for node in ast.walk(comparison)
        if isinstance(node, ast.Constant)
    }
    assert compared
    assert {(path, value) for path, value in compared if value in ("sagemaker", "kubeflow")} == set()


def test_what_travels_imports_nothing_that_stays() -> None:
    for module in modules():
        if room_of(module) in TRAVELS:
            assert {used for used in of_ours(module) if room_of(used) not in TRAVELS} == set(), module


def test_steps_import_only_the_standard_library_at_import_time() -> None:
    import sys

    for module, path in modules().items():
        if room_of(module) in INSIDE or module in WHAT_PROGRAMS_ARE_TOLD:
            for name in imports(path, top_level_only=True):
                top = name.partition(".")[0]
                inside = top in sys.stdlib_module_names or room_of(name) in INSIDE or name in WHAT_PROGRAMS_ARE_TOLD
                assert inside, f"{module} imports {name}"


def test_nothing_heavy_is_imported_by_the_compiler() -> None:
    programs = ("inference_server", "training", "training_scripts")
    for path in (path for module, path in modules().items() if room_of(module) not in programs):
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

    # The code that travels has one hash here and there, which changes with it, and with nothing else.
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")

    def code() -> str:
        run = "import sys; sys.path.insert(0, sys.argv[1]); from drivetrain.assets import assets; "
        run += "print(assets.__file__); print(assets.code_channel('s3://bucket').sha256)"
        place = tmp_path / "installed"
        command = [sys.executable, "-c", run, str(place)]
        file, sha256 = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
        assert Path(file).is_relative_to(place)
        return sha256

    # A ready pipeline and its data can be copied from there, compiled to bytecode or not.
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", str(tmp_path / "installed/drivetrain/pipelines")], check=True
    )
    run = f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); from drivetrain.cli.main import run; "
    copy = f"{run}sys.exit(run(['init', '--from', 'churn', 'copied']))"
    subprocess.run([sys.executable, "-c", copy], cwd=tmp_path, check=True)
    from drivetrain.assets.examples import example

    assert "churn.csv" in (tmp_path / "copied/pipeline.py").read_text()
    assert (tmp_path / "copied/churn.csv").read_bytes() == example("churn")["churn.csv"]

    from drivetrain.assets.assets import code_channel

    first = code()
    assert first == code_channel("s3://bucket").sha256
    with (tmp_path / "installed" / "drivetrain" / "cli" / "main.py").open("a") as stays:
        stays.write("# edited\n")
    assert code() == first
    with (tmp_path / "installed" / "drivetrain" / "training_scripts" / "train.py").open("a") as travels:
        travels.write("# edited\n")
    assert code() != first


def test_a_core_install_is_ten_packages_beside_our_own() -> None:
    """`make bench ARGS="--only install"` weighs them, and those of other tools."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        asked = tomllib.load(file)["project"]["dependencies"]
    found: set[str] = set()
    while asked:
        needed = Requirement(asked.pop())
        name = canonicalize_name(needed.name)
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found.add(name)
            asked += requires(name) or []
    pydantic = {"annotated-types", "pydantic", "pydantic-core", "typing-extensions", "typing-inspection"}
    assert found == pydantic | {"click", "markdown-it-py", "mdurl", "packaging", "pyyaml"}


def test_these_rooms_travel_and_no_others() -> None:
    import io
    import tarfile

    from drivetrain.assets.assets import CodeArchive

    with tarfile.open(fileobj=io.BytesIO(CodeArchive().content)) as archive:
        names = {name for name in archive.getnames() if name.endswith(".py")}
    files = {
        f"{module.replace('.', '/')}{'/__init__' if path.name == '__init__.py' else ''}.py": module
        for module, path in modules().items()
    }
    assert names == {name for name, module in files.items() if room_of(module) in {"", *TRAVELS}}


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
