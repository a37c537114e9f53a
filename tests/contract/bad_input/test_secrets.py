"""Canaries: secrets of the user's shell and of a definition are kept and shown nowhere."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.contract.bad_input.place import Place, definition, processing, training

CANARY = "canary-9f3b-"
FOUND = re.compile(rb"canary-9f3b-\w+")


def leaks(text: str | bytes) -> set[str]:
    data = text.encode() if isinstance(text, str) else text
    return {found.decode().removeprefix(CANARY) for found in FOUND.findall(data)}


def kept(place: Place) -> dict[str, set[str]]:
    """Every file of the home that holds a canary."""
    files = {str(path.relative_to(place.home)): path for path in place.home.rglob("*") if path.is_file()}
    return {name: found for name, path in files.items() if (found := leaks(path.read_bytes()))}


def test_the_shells_secrets_reach_no_step_and_no_file(place: Place) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    shell = {
        "AWS_ACCESS_KEY_ID": CANARY + "id",
        "AWS_SECRET_ACCESS_KEY": CANARY + "key",
        "AWS_SESSION_TOKEN": CANARY + "session",
        "AWS_PROFILE": CANARY + "profile",
        "GITHUB_TOKEN": CANARY + "github",
        "MY_SETTING": CANARY + "setting",
        "HTTPS_PROXY": f"http://me:{CANARY}proxy@proxy",
        "PYTHONPATH": CANARY + "path",
    }
    step = processing("step", program)
    ran = place.run(definition(step, training("trained", program)), **shell)
    assert ran.code == 0, ran
    assert leaks(ran.out + ran.err) == set()
    assert kept(place) == {}
    logs = [json.loads(path.read_text()) for path in place.home.rglob("*.log")]
    assert len(logs) == 2
    for seen in logs:
        assert {name for name in seen if name.startswith("AWS_")} <= {"AWS_REGION", "AWS_DEFAULT_REGION"}


def secretive() -> dict[str, Any]:
    """A definition with a secret in every place in which people put one, each with a name that says so."""
    token = {"Get": "Parameters.ApiToken"}
    environment = {"DB_PASSWORD": CANARY + "environment", "PLAIN": token}
    arguments = ["--api-key", CANARY + "flag", f"--password={CANARY}equals", "--value", token]
    hyperparameters = {"db_password": CANARY + "hyperparameter", "rate": "0.1"}
    trained = training("trained", "pass", hyperparameters)
    trained["Arguments"]["Environment"] = {"clientSecret": CANARY + "camel"}
    trained["Arguments"]["Tags"] = [{"Key": "password", "Value": CANARY + "tag"}]
    trained["CacheConfig"] = {"Enabled": True}
    refusing = "import sys; sys.exit('refused: ' + sys.argv[-1])"
    stop = {"Std:Join": {"On": " ", "Values": ["no access with", token]}}
    return definition(
        trained,
        processing("passed", "pass", *arguments, environment=environment, CacheConfig={"Enabled": True}),
        processing("failed", refusing, *arguments, "--last", token, environment={"AUTH_TOKEN": CANARY + "failed"}),
        {"Name": "stopped", "Type": "Fail", "Arguments": {"ErrorMessage": stop}, "DependsOn": ["passed", "trained"]},
        parameters=({"Name": "ApiToken", "Type": "String"},),
    )


def test_secrets_of_a_definition_reach_programs_and_are_stored_nowhere(place: Place) -> None:
    """Where they must lie so that the run can go on, and where a program itself writes one, only the owner may read."""
    said = ""
    for changed in ("one", "two"):  # the second time the cache compares with the first
        ran = place.run(secretive(), "--param", f"ApiToken={CANARY}{changed}", "--json", "--explain-cache")
        assert ran.code == 1, ran
        said += ran.out + ran.err
    for command in (["runs", "list"], ["runs", "show", "--json"], ["runs", "report"], ["show", "definition.json"]):
        ran = place.drivetrain(*command)
        assert ran.code == 0, ran
        said += ran.out + ran.err
    assert leaks(said) == set()
    assert place.step("failed") == ("Failed", "exit code 1\nrefused: ***")
    assert place.step("stopped") == ("Failed", "no access with ***")
    for name in kept(place):
        assert name.startswith("runs/"), name
        assert not name.endswith((".html", ".db"))
        # Beside what is needed to go on: the log and the folder of the step that printed its own.
        assert name.endswith(("definition.json", "request.json")) or "/failed/" in name, name
    assert (place.home / "runs").stat().st_mode & 0o077 == 0
    ledgers = [path for path in place.home.glob("ledger.db*") if leaks(path.read_bytes())]
    assert ledgers == []


def test_a_secret_in_a_pipeline_file_is_refused(place: Place) -> None:
    file = place.write(
        "example.py",
        "from drivetrain.components import component\n"
        "from drivetrain import Pipeline, step\n"
        "@component\n"
        "def work() -> None: ...\n"
        "def example() -> Pipeline:\n"
        f"    return Pipeline(name='x', steps=[step(work, environment={{'DB_PASSWORD': '{CANARY}code'}})])\n",
    )
    ran = place.drivetrain("run", file)
    place.refused(ran, "'DB_PASSWORD' looks like a secret", "Secrets Manager")
    assert leaks(ran.err) == set()
