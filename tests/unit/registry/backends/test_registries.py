from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry import backends
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.registry import RegistryError, kinds, open_registry, shown


def test_every_kind_of_registry_is_a_file() -> None:
    folder = Path(backends.__file__).parent
    assert kinds() == sorted(file.stem for file in folder.glob("*.py") if not file.name.startswith("_"))
    assert "local" in kinds()


def test_opening_creates_nothing(tmp_path: Path) -> None:
    registry = open_registry(f"local:{tmp_path}/a/b.db")
    assert isinstance(registry, LocalRegistry) and registry.path == tmp_path / "a" / "b.db"
    assert registry.groups() == [] and list(tmp_path.iterdir()) == []


def test_a_path_in_a_missing_folder_is_an_error_and_not_an_empty_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = open_registry(f"local:{tmp_path}/mistyped/ledger.db")
    for call in (lambda: registry.champion("digits"), lambda: registry.find("digits", "0" * 64)):
        with pytest.raises(RegistryError, match=r"there is no folder .*/mistyped for the registry"):
            call()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRIVETRAIN_HOME", raising=False)
    for url in ("local", "local:.drivetrain/ledger.db", f"local:{tmp_path}/ledger.db"):  # before the first run
        assert open_registry(url).champion("digits") is None


SECRETS = [
    "mlflow:postgresql://h/db?user=u&password=s3cret",
    "mlflow:http://u:s3/cret@h/db",
    "mlflow:http://u:s3@cret@h/db",
    "mlflow:http://u:s3?cret@h/db",
    "mlflow:http://u:s3#cret@h/db",
    "mlflow:http://h/db?mail=a@b&password=s3cret",
]


@pytest.mark.parametrize("url", SECRETS)
def test_no_password_is_shown(url: str) -> None:
    assert "s3" not in shown(url) and "cret" not in shown(url) and shown(url).startswith("mlflow:")
    with pytest.raises(InputError) as caught:
        open_registry(url.replace("mlflow:", "mlfow:"))
    assert "s3" not in str(caught.value) and "cret" not in str(caught.value) and "Did you mean" in str(caught.value)
    with pytest.raises(InputError) as caught:
        open_registry(url.replace("mlflow:", "kubeflow:"))
    assert "s3" not in str(caught.value) and "cret" not in str(caught.value)


def test_a_place_without_a_password_is_shown_whole() -> None:
    for url in ("local:.drivetrain/ledger.db", "sagemaker:eu-west-1", "kubeflow:http://host:8080", "local", ""):
        assert shown(url) == url
    assert shown("mlflow:https://ada:secret@registry.example/path") == "mlflow:https://registry.example/path"


@pytest.mark.parametrize("url", ["local", "local:"])
def test_the_local_registry_is_the_one_of_the_home(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_registry(url)
    assert isinstance(opened, LocalRegistry) and opened.path == Path(".drivetrain/ledger.db")
    monkeypatch.setenv("DRIVETRAIN_HOME", "/somewhere")
    opened = open_registry(url)
    assert isinstance(opened, LocalRegistry) and opened.path == Path("/somewhere/ledger.db")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("locl:x.db", "unknown kind 'locl'. Did you mean 'local'?"),
        ("", "unknown kind ''. Allowed: auto, kubeflow, local"),
        ("__init__:x", "unknown kind '__init__'"),
        ("../local:x", "unknown kind '../local'"),
        ("build/ledger.db", "names no kind. Write it as local:build/ledger.db."),
    ],
)
def test_a_wrong_kind_is_refused(url: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        open_registry(url)
    assert said in str(caught.value)


def test_auto_takes_the_registry_of_the_environment_or_the_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRIVETRAIN_REGISTRY", raising=False)
    opened = open_registry("auto")
    assert isinstance(opened, LocalRegistry) and opened.path == Path(".drivetrain/ledger.db")
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", f"local:{tmp_path}/ledger.db")
    opened = open_registry("auto")
    assert isinstance(opened, LocalRegistry) and opened.path == tmp_path / "ledger.db"
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", "auto")
    with pytest.raises(InputError, match="unknown kind 'auto'"):
        open_registry("auto")
