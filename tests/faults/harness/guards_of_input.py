"""The families about malicious input and secrets notice when a guard is missing: each is taken away in turn.

../test_guards_of_input.py runs this file in a process of its own: a forked command takes its modules and its memory
from the process, in which other tests have imported what is to be patched before it is, and used gigabytes.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[3]))

from drivetrain.processes import supervised
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from tests.faults import canary_secrets, malicious_input
from tests.faults.harness.families import Trial, family

pytestmark = pytest.mark.slow

SEED = 20261121
MOST_TRIALS = 12
LOCAL = "drivetrain.targets.sagemaker.run"
OURS = "drivetrain"


@pytest.fixture(scope="module")
def hostile() -> malicious_input.Shared:
    return malicious_input.Shared()


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> canary_secrets.Shared:
    return canary_secrets.Shared(tmp_path_factory.mktemp("shared"))


def violations(name: str, ways: str, way: Any, trial: Callable[..., Any], shared: Any, folder: Path) -> list[str]:
    """Of the first trial of one way that has any."""
    with mock.patch(f"tests.faults.{name}.{ways}", (("it", way),)):
        for number in range(MOST_TRIALS):
            own = folder / f"trial-{number}"
            own.mkdir()
            found = trial(Trial(number, SEED, own, family(name).draw(SEED, number)), shared)
            if found.violations:
                return found.violations
    return []


@contextmanager
def replaced(instead: Mapping[str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for place, value in instead.items():
            stack.enter_context(mock.patch(place, value))
        yield


def believing(text: str, *_: Any) -> Any:
    return yaml.load(text, Loader=yaml.UnsafeLoader)


def believing_events(data: bytes, source: str) -> list[Any]:
    return [believing(data.decode())]


def through_a_shell(step: str, app: Mapping[str, Any], *_: Any) -> tuple[str, ...]:
    words = [*app["ContainerEntrypoint"], *app["ContainerArguments"]]
    return ("sh", "-c", " ".join(words[:2]) + " 'pass' " + " ".join(words[3:]))


def anywhere(uri: str) -> tuple[str, list[str]]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key.split("/")


def unguarded_start(folder: Path) -> Path:
    """The start file of a step, unpacking as `tar -P` does."""
    text = malicious_input.START.read_text()
    call = "                for member in tar:\n"
    assert text.count(call) == 1
    careless = "                tar.extractall(folder, filter='fully_trusted')\n                return\n"
    (folder / "start.py").write_text(text.replace(call, careless + call))
    return folder / "start.py"


HOSTILE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "settings": (
        malicious_input.by_settings,
        {
            f"{OURS}.authoring.plain_yaml.load_yaml": believing,
            "tests.faults.malicious_input.YAML": malicious_input.YAML[:2],
        },
        "it was executed",
    ),
    "patch": (
        malicious_input.by_patch,
        {
            f"{OURS}.studio.patch_text.read": believing,
            "tests.faults.malicious_input.YAML": malicious_input.YAML[:2],
        },
        "it was executed",
    ),
    "nesting": (
        malicious_input.by_definition,
        {
            f"{OURS}.base.json_text.deeper_than": lambda *_: False,
            "tests.faults.malicious_input.JSON": malicious_input.JSON[4:5],
        },
        "it was not refused",
    ),
    "size": (
        malicious_input.by_definition,
        {
            f"{OURS}.targets.sagemaker.document.document.MAX_BYTES": 1 << 40,
            f"{OURS}.targets.sagemaker.document.document.MAX_STEPS": 10**9,
            f"{OURS}.base.json_text.MAX_BYTES": 1 << 40,
            "tests.faults.malicious_input.JSON": malicious_input.JSON[5:],
        },
        "it was not refused",
    ),
    "events": (
        malicious_input.by_event,
        {
            f"{OURS}.triggers.replay.read_events": believing_events,
            "tests.faults.malicious_input.JSON": malicious_input.JSON[:2],
        },
        "it was executed",
    ),
    "a shell": (
        malicious_input.by_words,
        {"drivetrain.targets.sagemaker.run.jobs.programs.entry_point": through_a_shell},
        "it was executed",
    ),
    "paths": (malicious_input.by_paths, {"drivetrain.run_store.objects.parse": anywhere}, "changed"),
}


@pytest.mark.parametrize("guard", HOSTILE)
def test_missing_input_checks_are_noticed(guard: str, hostile: malicious_input.Shared, tmp_path: Path) -> None:
    way, instead, said = HOSTILE[guard]
    with replaced(instead):
        found = violations("malicious_input", "VECTORS", way, malicious_input.trial, hostile, tmp_path)
    assert any(said in text for text in found), found


def test_a_missing_archive_check_is_noticed(hostile: malicious_input.Shared, tmp_path: Path) -> None:
    with mock.patch("tests.faults.malicious_input.START", unguarded_start(tmp_path)):
        way = malicious_input.by_archive
        found = violations("malicious_input", "VECTORS", way, malicious_input.trial, hostile, tmp_path)
    assert any("it was executed" in text for text in found), found


def test_every_shell_exploit_works_unquoted(tmp_path: Path) -> None:
    """Also where all that was drawn have to close a quote first."""
    for number in range(60):
        canary = tmp_path / f"canary-{number}"
        words = malicious_input.exploits.shell_words(random.Random(number), canary)
        malicious_input.exploits.believe_shell(json.dumps(words[:1]).encode(), tmp_path)
        assert canary.exists(), words[0]


def test_a_harmless_input_is_noticed(hostile: malicious_input.Shared, tmp_path: Path) -> None:
    """An exploit that would harm nobody tests nothing."""
    dud = malicious_input.Exploit("dud", lambda draw, canary: b"epochs: many\n", lambda content, folder: None)
    with mock.patch("tests.faults.malicious_input.YAML", (dud,)):
        way = malicious_input.by_settings
        found = violations("malicious_input", "VECTORS", way, malicious_input.trial, hostile, tmp_path)
    assert "is no exploit" in found[0]


def with_the_shell(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {**os.environ, **_environment(arguments)}


def keeping(self: Any, value: Any) -> Any:
    return value


def trained_with_variables(case: Any, data: Path, folder: Path) -> None:
    """A checkpoint that keeps the environment, packed."""
    import gzip

    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    (folder / "state").write_bytes(gzip.compress(json.dumps(dict(os.environ)).encode()))


_environment, _specification = jobs.environment_of, supervised.specification
SECRETS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "shell": (
        canary_secrets.in_the_shell,
        {"drivetrain.targets.sagemaker.run.jobs.programs.environment_of": with_the_shell},
        "holds the secrets of",
    ),
    "names": (
        canary_secrets.in_a_definition,
        {f"{OURS}.base.masking.looks_secret": lambda _: False},
        "the secrets of",
    ),
    "shapes": (
        canary_secrets.by_shape,
        {f"{OURS}.base.masking.without_shapes": lambda text, *_: text},
        "the secrets of",
    ),
    "environment": (
        canary_secrets.by_shape,
        {f"{OURS}.base.masking.environment_secrets": set},
        "the secrets of ['environment']",
    ),
    "logs": (
        canary_secrets.by_shape,
        {
            f"{LOCAL}.execution.worker.mask_logs": lambda folder, masking: None,
            "drivetrain.processes.container.specification": lambda *given: {**_specification(*given), "secrets": []},
        },
        "127.0.0.1.log holds the secrets of",
    ),
    "settings": (
        canary_secrets.in_settings,
        {f"{OURS}.authoring.settings.looks_secret": lambda _: False},
        "says the secrets",
    ),
    "patch": (canary_secrets.in_an_edit, {f"{OURS}.studio.patch._holds_secret": lambda _: False}, "was pulled"),
    "plan": (
        canary_secrets.in_an_edit,
        {f"{OURS}.targets.sagemaker.deploy.planning.drift.masked": lambda change: change},
        "plan.json holds the secrets of",
    ),
    "event": (canary_secrets.in_an_event, {f"{OURS}.cli.local.triggers._shown": dict}, "says the secrets of ['event']"),
    "registration": (
        canary_secrets.in_a_registration,
        {f"{OURS}.base.masking.Masking.__call__": keeping},
        "ledger.db",
    ),
    "checkpoint": (
        canary_secrets.in_a_training,
        {"tests.faults.harness.training.uninterrupted": trained_with_variables},
        "training/state holds the secrets of",
    ),
}


@pytest.mark.parametrize("guard", SECRETS)
def test_a_leak_is_noticed_without_masking(guard: str, secrets: canary_secrets.Shared, tmp_path: Path) -> None:
    way, instead, said = SECRETS[guard]
    with replaced(instead):
        found = violations("canary_secrets", "WAYS", way, canary_secrets.trial, secrets, tmp_path)
    assert any(said in text for text in found), found
