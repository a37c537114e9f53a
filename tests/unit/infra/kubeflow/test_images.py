"""The images by their Dockerfiles and lists: what is in them, by hash, for a user that is not root.

Building them needs Docker, which these tests have not: what is asserted is what the files say (`make audit-code` runs
hadolint on them).
"""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from drivetrain.infra.kubeflow.needs import SSH_SECRET
from drivetrain.infra.kubeflow.pods import USER
from drivetrain.infra.kubeflow.runtimes import SSH_FILES, SSH_FOLDER
from drivetrain.steps.declaration import Component
from drivetrain.targets.kubeflow.settings import Infrastructure, Settings

ROOT = Path(__file__).parents[4]
IMAGES = ROOT / "infra" / "kubeflow" / "images"
DOCKERFILES = sorted(path.stem for path in IMAGES.glob("*.Dockerfile"))
HASHED = {"cpu": "cpu-hashed.txt", "gpu": "gpu-hashed.txt", "services": "services-hashed.txt"}
# Made on another image of ours.
ON_OURS = ("mpi", "spark")


def instructions(name: str) -> list[tuple[str, str]]:
    """(instruction, words) of a Dockerfile, comments left out and lines joined."""
    text = (IMAGES / f"{name}.Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ").splitlines()
    return [(word.upper(), " ".join(rest.split())) for line in lines if line for word, _, rest in [line.partition(" ")]]


def pins(file: str, folder: Path = IMAGES) -> dict[str, str]:
    """Distribution -> version."""
    text = (folder / file).read_text(encoding="utf-8")
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.M)}


CONSTRAINTS = pins("constraints.txt", ROOT)


def test_every_dockerfile_is_known() -> None:
    assert DOCKERFILES == ["cpu", "gpu", "mpi", "services", "spark"]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_image_runs_as_the_user_of_the_pods(name: str) -> None:
    users = [words for instruction, words in instructions(name) if instruction == "USER"]
    assert users[-1] == f"{USER}:{USER}"
    added = [words for instruction, words in instructions(name) if instruction == "RUN" and "useradd" in words]
    assert all(f"--uid {USER} " in words for words in added) and bool(added) == (name not in ON_OURS), (
        "they have their base's"
    )


@pytest.mark.parametrize("name", DOCKERFILES)
def test_what_is_copied_lies_beside_the_dockerfile(name: str) -> None:
    found = instructions(name)
    assert not [words for instruction, words in found if instruction == "ADD"], "ADD fetches and unpacks"
    for words in (words for instruction, words in found if instruction == "COPY" and "--from=" not in words):
        *sources, _ = words.split()
        assert sources and all((IMAGES / source).is_file() for source in sources)


@pytest.mark.parametrize("name", HASHED)
def test_packages_are_installed_by_their_hashes(name: str) -> None:
    runs = " && ".join(words for instruction, words in instructions(name) if instruction == "RUN")
    installs = [command for command in runs.split("&&") if "pip install" in command]
    by_hash = [command for command in installs if "--require-hashes" in command]
    assert len(by_hash) == 1 and HASHED[name] in by_hash[0] and "--only-binary :all:" in by_hash[0]
    # The rest: our own wheel, and torch for CPUs in the version that is pinned.
    assert [command for command in installs if command not in by_hash and "--no-index" not in command] == (
        [command for command in installs if "torch.txt" in command] if name == "cpu" else []
    )
    for part in re.split(r"\n(?=\w)", (IMAGES / HASHED[name]).read_text(encoding="utf-8")):
        if not part.startswith("#"):
            assert re.findall(r"--hash=sha256:[0-9a-f]{64}\b", part), part


def test_pyspark_is_installed_by_its_hash() -> None:
    (install,) = [words for instruction, words in instructions("spark") if instruction == "RUN" and "pip" in words]
    assert "--require-hashes -r /tmp/requirements/spark-hashed.txt" in install
    parts = re.split(r"\n(?=\w)", (IMAGES / "spark-hashed.txt").read_text(encoding="utf-8"))
    assert all(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", part) for part in parts if not part.startswith("#"))
    assert pins("spark-hashed.txt").items() >= pins("spark.txt").items() > {}.items()


def test_images_have_the_tested_versions() -> None:
    """One list, `requirements.txt`, is what `make test-in ENV=image` installs and what the images hold."""
    tested, added = pins("requirements.txt"), pins("additions.txt")
    assert tested and added.items() <= CONSTRAINTS.items()
    assert pins("gpu-hashed.txt").items() >= {**tested, **added}.items()
    without_torch = {name: version for name, version in tested.items() if name != "torch"}
    assert without_torch.keys() != tested.keys()
    assert pins("cpu-hashed.txt").items() >= {**without_torch, **added}.items()
    assert pins("cpu-hashed.txt").items() <= pins("gpu-hashed.txt").items()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "IMAGES = infra/kubeflow/images\n" in makefile
    assert "$(INSTALL) -r $(IMAGES)/requirements.txt\n" in makefile.partition(".venvs/image/.installed:")[2]
    run = " ".join(words for instruction, words in instructions("cpu") if instruction == "RUN")
    assert "grep '^torch==' /tmp/requirements/requirements.txt > /tmp/requirements/torch.txt" in run


def test_the_images_hold_what_every_component_needs() -> None:
    """Nothing travels with the code there, as wheels do on SageMaker."""
    held = pins("gpu-hashed.txt")
    needs = set()
    for path in (ROOT / "components").glob("[a-z]*.py"):
        module = importlib.import_module(f"drivetrain.components.{path.stem}")
        needs |= {need for value in vars(module).values() if isinstance(value, Component) for need in value.needs}
    assert "torch" in needs
    for need in map(Requirement, needs):
        assert need.specifier.contains(held[canonicalize_name(need.name)]), need


def test_the_services_hold_the_package_and_tensorboard() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    held = pins("services-hashed.txt")
    asked = [*project["dependencies"], *project["optional-dependencies"]["s3"], "tensorboard"]
    assert {canonicalize_name(Requirement(one).name) for one in asked} <= held.keys()
    assert {name: CONSTRAINTS[name] for name in held if name in CONSTRAINTS} == {
        name: version for name, version in held.items() if name in CONSTRAINTS
    }


def test_artifacts_and_volumes_can_be_written_by_that_user() -> None:
    """Pipelines brings artifacts to folders of the root (drivetrain/steps/kubeflow/task.py)."""
    from drivetrain.steps.kubeflow.task import local_path
    from drivetrain.targets.kubeflow.compile.machines import CHECKPOINTS

    for name in ("cpu", "gpu"):
        (made,) = [words for instruction, words in instructions(name) if "install -d" in words]
        # Group 0: OpenShift runs an image as some user in it.
        folders = made.partition(f"install -d -o {USER} -g 0 -m 0775 ")[2].partition(" && ")[0].split()
        for scheme in ("s3", "minio", "gs"):
            assert str(local_path(f"{scheme}://bucket/key").parents[1]) in folders
        assert str(Path(CHECKPOINTS).parent) in folders


@pytest.mark.parametrize("name", HASHED)
def test_the_home_can_be_written_by_any_user_of_group_0(name: str) -> None:
    found = instructions(name)
    runs = " ".join(words for instruction, words in found if instruction == "RUN")
    assert "chgrp -R 0 /home/drivetrain && chmod -R g=u /home/drivetrain" in runs
    assert ("ENV", "HOME=/home/drivetrain") in found, "a user without a name has none"


def test_ssh_and_its_server_agree_with_the_runtime() -> None:
    def words(file: str) -> dict[str, str]:
        lines = (IMAGES / file).read_text(encoding="utf-8").splitlines()
        return {key: value for key, _, value in (line.strip().partition(" ") for line in lines if line[:1] != "#")}

    client, server = words("ssh_config"), words("sshd_config")
    assert client["Port"] == server["Port"] and int(server["Port"]) > 1024, "a port for users that are not root"
    assert {Path(path).name for path in (client["IdentityFile"], server["HostKey"])} == {SSH_FILES["ssh-privatekey"]}
    assert server["AuthorizedKeysFile"] == f"{SSH_FOLDER}/{SSH_FILES['ssh-publickey']}"
    assert client["IdentityFile"] == server["HostKey"] == f"{SSH_FOLDER}/{SSH_FILES['ssh-privatekey']}"
    assert server["PasswordAuthentication"] == server["UsePAM"] == server["PermitRootLogin"] == "no"
    assert SSH_SECRET in (IMAGES / "sshd_config").read_text(encoding="utf-8")


def test_the_defaults_of_the_settings_name_images_that_can_be_built() -> None:
    for image in (Settings().image, Infrastructure().image):
        assert image.removeprefix("drivetrain-").removesuffix(":latest") in DOCKERFILES
