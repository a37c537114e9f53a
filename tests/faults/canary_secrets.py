"""Secrets in the shell's environment, in definitions, arguments, settings, events and edits made in Studio, by name, by
shape and by value: none of them is in what a run, a plan or a registration keeps and says, or in a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.harness.command import PRELOAD as OF_COMMANDS
from tests.faults.harness.command import warm
from tests.faults.harness.definitions import definition, processing_step, training_step
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.hiding_place import SECRET_NAMES, Place, Shared

FAULT = (
    "canary secrets in environment, arguments, settings, edits: 0 in logs, definitions, checkpoints, registry, plans"
)
TRIALS, QUICK, AT_ONCE = 400, 4, 2
PRELOAD = (
    "tests.faults.harness.hiding_place",
    "tests.faults.harness.training",
    "tests.fixtures.sagemaker_service.server",
    *OF_COMMANDS,
)
# Of so many trials the commands of one are started as users start them.
LAUNCHED_ONE_OF = 33
PATIENCE_S = 240.0

OTHER_NAMES = ("MY_SETTING", "HTTPS_PROXY", "AWS_PROFILE", "PYTHONPATH", "MYSQL_PWD", "AWS_SESSION_TOKEN", "WANDB_KEY")
# Where a definition's own text must lie so that the run can go on; only the owner may read there.
KEPT_FOR_RESUMING = ("definition.json", "request.json")
LOOKS = ("runs list", "runs show latest", "runs show latest --json", "runs show latest --events --json", "show latest")

OWN = """
from drivetrain.components import component
from drivetrain import Parameter, Pipeline, RegistryEvent, Settings, step


class Own(Settings):
    api_token: str = ""
    tries: int = 1
    password: int = 0


@component
def work(rate: str) -> None:
    print(rate)


def own(settings: Own) -> Pipeline:
    environment = {"API_TOKEN": settings.api_token} if settings.api_token else {}
    wanted = Parameter.string("ApiToken", "none")
    return Pipeline(
        name="own",
        parameters=[wanted],
        steps=[step(work, rate="1", environment=environment)],
        triggers=[RegistryEvent(name="ok", group="g", parameters={"ApiToken": "$.detail.CustomerMetadata.token"})],
        deployment=settings.deployment,
    )
"""


def prepare(folder: Path) -> Shared:
    warm()
    return Shared(folder)


def trial(given: Trial, shared: Shared) -> Found:
    place = Place(given, shared, launched=given.number % LAUNCHED_ONE_OF == LAUNCHED_ONE_OF // 2)
    name, way = given.in_turn(WAYS)
    way(place)
    hidden = place.canaries.places()
    if not hidden:
        place.violations.append("nothing was hidden")
    place.did[f"in {name}"] += 1
    place.did["secrets hidden"] += len(hidden)
    return Found([f"{name}: {text}" for text in place.violations], dict(place.did))


def in_the_shell(place: Place) -> None:
    """Steps see none of the shell's variables; what they see they print and write."""
    shell = {name: place.canaries.new(name) for name in place.draw.sample([*SECRET_NAMES, *OTHER_NAMES], 8)}
    shell |= {name: place.canaries.new(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    program = (
        "import json, os; seen = json.dumps(dict(os.environ)); print(seen); "
        "os.makedirs('/opt/ml/processing/o', exist_ok=True); "
        "open('/opt/ml/processing/o/seen.json', 'w').write(seen)"
    )
    made = processing_step("work", program)
    made["Arguments"]["ProcessingOutputConfig"] = {
        "Outputs": [
            {
                "OutputName": "o",
                "S3Output": {"S3Uri": "s3://b/o", "LocalPath": "/opt/ml/processing/o", "S3UploadMode": "EndOfJob"},
            }
        ]
    }
    place.write("definition.json", definition(made, training_step("learn", {}, "import os; print(dict(os.environ))")))
    shell.pop("PYTHONPATH", None)
    place.drivetrain("run -d definition.json --json", **shell)
    for command in ("runs report latest", *LOOKS, "import definition.json -o exported.json", "check definition.json"):
        place.drivetrain(command, **shell)
    if len(list(place.home.rglob("seen.json"))) < 1:
        place.violations.append("the step wrote nothing")
    place.search()


def in_a_definition(place: Place) -> None:
    """In every place in which people put one, under a name that says so."""
    draw, new = place.draw, place.canaries.new
    token = {"Get": "Parameters.ApiToken"}
    flag, name = draw.choice(("--api-key", "--password", "--client-secret")), place.secret_name()
    arguments: list[Any] = [flag, new("flag")] if draw.random() < 0.7 else []
    arguments += [f"--password={new('equals')}"] if draw.random() < 0.7 else []
    environment = {name: new("environment"), "PLAIN": token if draw.random() < 0.5 else "x"}
    worked = processing_step("work", "pass")
    worked["Arguments"]["AppSpecification"]["ContainerArguments"] = [*arguments, "--value", token]
    worked["Arguments"]["Environment"] = environment
    failing = processing_step("fails", "import sys; sys.exit('refused: ' + sys.argv[-1])")
    failing["Arguments"]["AppSpecification"]["ContainerArguments"] = [*arguments, "--last", token]
    learnt = training_step("learn", {"db_password": new("hyperparameter"), "rate": "0.1"}, "pass")
    learnt["Arguments"]["Environment"] = {place.secret_name(): new("training")}
    learnt["Arguments"]["Tags"] = [{"Key": "password", "Value": new("tag")}]
    learnt["CacheConfig"] = worked["CacheConfig"] = {"Enabled": True}
    stop = {"Std:Join": {"On": " ", "Values": ["no access with", token]}}
    stopping = {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": stop}, "DependsOn": ["work", "learn"]}
    parameter = {"Name": "ApiToken", "Type": "String"}
    given: list[str] = []
    if draw.random() < 0.5:
        parameter["DefaultValue"] = new("default")
    else:
        given = ["--param", f"ApiToken={new('parameter')}"]
    made = {**definition(learnt, worked, failing, stopping), "Parameters": [parameter]}
    changed = json.loads(json.dumps(made))
    changed["Steps"][0]["Arguments"]["HyperParameters"]["db_password"] = new("changed hyperparameter")
    changed["Steps"][1]["Arguments"]["AppSpecification"]["ContainerArguments"][0:0] = ["--token", new("added flag")]
    changed["Steps"][1]["Arguments"]["Environment"] = {name: new("changed environment")}
    place.write("definition.json", made)
    place.write("changed.json", changed)
    place.drivetrain(["run", "-d", "definition.json", *given, "--json", "--explain-cache"], codes=(1,))
    place.drivetrain(["run", "-d", "changed.json", *given, "--explain-cache"], codes=(1,))
    for command in (*LOOKS, "runs report latest", "runs logs latest work", "show definition.json -o d.html"):
        place.drivetrain(command)
    for command in (
        "import definition.json",
        "import definition.json --json",
        "check definition.json",
        "check definition.json --json",
    ):
        place.drivetrain(command, codes=(0, 1))
    for command in ("diff definition.json changed.json", "diff changed.json definition.json --json"):
        place.drivetrain(command)
    place.drivetrain("plan -d definition.json -c account.yaml --out plan.json")
    place.drivetrain("plan -d definition.json -c account.yaml --json")

    place.search(allowed=_kept_for_the_owner)
    if (place.home / "runs").stat().st_mode & 0o077:
        place.violations.append("others may read what is kept for resuming")


def _kept_for_the_owner(path: str) -> bool:
    """What is needed to go on, and what a step that failed was given and left."""
    return path.startswith("home/runs/") and (path.endswith(KEPT_FOR_RESUMING) or "/fails/attempt-1/hosts/" in path)


def by_shape(place: Place) -> None:
    """Under names that say nothing: what looks like a secret, and what the shell has under a name that says so."""
    plain, variable = place.canaries.plain, place.secret_name()
    shapes = {
        "password in a URL": f"mysql://me:{plain('password in a URL')}@host/db",
        "token in a URL": f"https://{plain('token in a URL')}abcd@host/a.git",
        "signature in a URL": f"https://host/o?a=1&X-Amz-Signature={plain('signature in a URL')}",
        "GitHub": f"ghp_{plain('GitHub')}{'a1' * 12}",
        "JWT": f"eyJ{plain('JWT')}.eyJ{'a1' * 8}.sign",
        "private key": f"-----BEGIN PRIVATE KEY-----\n{plain('private key')}\n-----END PRIVATE KEY-----",
        "environment": plain("environment"),
    }
    words = [shapes[name] for name in place.draw.sample(sorted(shapes), len(shapes))]
    worked = processing_step(
        "work", "import os, sys; print(sys.argv[1:], os.environ['RATE'], *sys.argv[1:], sep=chr(10))"
    )
    worked["Arguments"]["AppSpecification"]["ContainerArguments"] = ["--rate", *words]
    worked["Arguments"]["Environment"] = {"RATE": words[0], "PLAIN": {"Get": "Parameters.Rate"}}
    failing = processing_step("fails", "import sys; print(sys.argv[1]); sys.exit('refused: ' + sys.argv[1])")
    failing["Arguments"]["AppSpecification"]["ContainerArguments"] = [words[1]]
    failing["DependsOn"] = ["work"]
    learnt = training_step("learn", {"rate": words[2]}, "import sys; print(open('/proc/self/environ').read())")
    learnt["Arguments"]["Environment"] = {"RATE": words[3]}
    learnt["Arguments"]["Tags"] = [{"Key": "rate", "Value": words[4]}]
    learnt["CacheConfig"] = worked["CacheConfig"] = {"Enabled": True}
    parameter = {"Name": "Rate", "Type": "String", "DefaultValue": words[5]}
    made = {**definition(learnt, worked, failing), "Parameters": [parameter]}
    changed = json.loads(json.dumps(made))
    changed["Steps"][0]["Arguments"]["HyperParameters"]["rate"] = words[6]
    place.write("definition.json", made)
    place.write("changed.json", changed)
    shell = {variable: shapes["environment"]}
    run = ["run", "-d", "definition.json", "--param", f"Rate={words[6]}", "--json"]
    place.drivetrain(run, codes=(1,), **shell)
    place.drivetrain("run -d changed.json --explain-cache", codes=(1,), **shell)
    for command in (*LOOKS, "runs report latest", "runs logs latest work", "runs logs latest fails"):
        place.drivetrain(command, **shell)
    for command in (
        "show definition.json",
        "diff definition.json changed.json",
        "diff definition.json changed.json --json",
    ):
        place.drivetrain(command, **shell)
    for command in ("check definition.json", "check definition.json --json", "import definition.json"):
        place.drivetrain(command, codes=(0, 1), **shell)
    place.drivetrain("plan -d definition.json -c account.yaml --out plan.json", **shell)
    place.search(allowed=_kept_for_the_owner)
    for path in (place.home, place.home / "s3", place.home / "ledger.db", *place.home.rglob("*.log")):
        if path.stat().st_mode & 0o077:
            place.violations.append(f"others may read {path.name}")


def in_settings(place: Place) -> None:
    """Of a pipeline that hands one to a step, and of one that is given where a number belongs."""
    place.write("own.py", OWN)
    name, value = place.draw.choice((("api_token", "setting"), ("password", "number"), ("tries", "")))
    secret = place.canaries.new("setting")
    if not value:  # a name that is not known, such as a typing error in one that is
        name = place.draw.choice(("api_tokn_secret", "db_password"))
    place.write("own.yaml", {**place.place, name: secret})
    command = place.draw.choice(("check", "compile", "show", "run", "plan", "pull", "apply"))
    way = place.draw.choice(("file", "option", "variable"))
    if way == "variable" and name not in ("api_token", "password"):
        way = "option"
    more = {f"DRIVETRAIN_{name.upper()}": secret} if way == "variable" else {}
    option = ["--set", f"{name}={secret}"] if way == "option" else []
    if way != "file":
        place.write("own.yaml", place.place)
    yes = ["--yes"] if command == "apply" else []
    ended = place.drivetrain([command, "own.py", *option, *yes], codes=(2,), **more)
    if "secret" not in ended.err and name not in ended.err:
        place.violations.append(f"it is not said what is wrong: {ended}")
    place.drivetrain("schema settings own.py -o schema.json", **more)
    place.search()


def in_an_edit(place: Place) -> None:
    """Somebody puts one into the deployed pipeline, in Studio."""
    place.write("own.py", OWN)
    place.write("own.yaml", place.place)
    place.drivetrain("apply own.py --yes")
    sagemaker = place.account.client("sagemaker")
    edited = json.loads(sagemaker.describe_pipeline(PipelineName="own")["PipelineDefinition"])
    work = next(step for step in edited["Steps"] if step["Name"] == "work")["Arguments"]
    where = place.draw.choice(("environment", "flag", "equals", "parameter", "step"))
    secret = place.canaries.new(where)
    if where == "environment":
        work.setdefault("Environment", {})[place.secret_name()] = secret
    elif where in ("flag", "equals"):
        more = ["--api-key", secret] if where == "flag" else [f"--api-key={secret}"]
        work["AppSpecification"].setdefault("ContainerArguments", []).extend(more)
    elif where == "parameter":
        edited["Parameters"][0]["DefaultValue"] = secret
    else:
        edited["Steps"].append(processing_step("added", "pass"))
        edited["Steps"][-1]["Arguments"]["Environment"] = {place.secret_name(): secret}
    sagemaker.update_pipeline(PipelineName="own", PipelineDefinition=json.dumps(edited))
    place.did[f"edit: {where}"] += 1
    place.drivetrain("plan own.py --out plan.json")
    place.drivetrain("plan own.py --json")
    place.drivetrain("apply own.py --yes", codes=(2,))
    place.drivetrain("pull own.py --dry-run", codes=(0, 2))
    place.drivetrain("pull own.py --json", codes=(2,))
    place.drivetrain("pull own.py", codes=(2,))
    place.drivetrain("runs show --on sagemaker -p own", codes=(0, 1, 2))
    if (place.work / "own.studio.yaml").exists():
        place.violations.append("a secret was pulled into the code")
    place.search()


def in_an_event(place: Place) -> None:
    """A trigger hands it to a parameter whose name says what it is."""
    place.write("own.py", OWN)
    detail = {
        "ModelPackageGroupName": "g",
        "ModelApprovalStatus": "Approved",
        "UpdatedModelPackageFields": ["ModelApprovalStatus"],
        "ModelPackageArn": "arn:aws:sagemaker:us-east-1:123456789012:model-package/g/1",
        "CustomerMetadata": {"token": place.canaries.new("event")},
    }
    event = {
        "version": "0",
        "id": "0f2d5b3c-0000-0000-0000-000000000000",
        "detail-type": "SageMaker Model Package State Change",
        "source": "aws.sagemaker",
        "account": "123456789012",
        "time": "2026-03-04T05:06:07Z",
        "region": "us-east-1",
        "resources": [],
        "detail": detail,
    }
    place.write("event.json", event)
    for more in ("", " --json"):
        ended = place.drivetrain(f"triggers replay event.json own.py{more}")
        if "ApiToken" not in ended.out:
            place.violations.append(f"the event starts nothing: {ended}")
    place.search()


def in_a_training(place: Place) -> None:
    """In the environment of ranks that train, save and validate."""
    from tests.faults.harness import training

    names = place.draw.sample([*SECRET_NAMES, "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_SETTING"], 6)
    hidden = {name: place.canaries.new(name) for name in names}
    case = training.Case("2 ranks", 2, 4, {"global_batch": "8", "epochs": "2", "keep_best": "True"})
    os.environ.update(hidden)
    try:
        training.uninterrupted(case, place.shared.data, place.work / "training")
    finally:
        for name in hidden:
            del os.environ[name]
    if not list(place.work.rglob("manifest.json")):
        place.violations.append("no checkpoint was written")
    place.search()


def in_a_registration(place: Place) -> None:
    """A model is trained beside secrets, and registered with what describes it."""
    program = "import os; open('/opt/ml/model/weights', 'w').write('1')"
    learnt = training_step("learn", {"api_token": place.canaries.new("hyperparameter")}, program)
    learnt["Arguments"]["Environment"] = {place.secret_name(): place.canaries.new("environment")}
    container = {
        "Image": "image",
        "ModelDataUrl": {"Get": "Steps.learn.ModelArtifacts.S3ModelArtifacts"},
        "Environment": {place.secret_name(): place.canaries.new("container")},
    }
    specification = {"Containers": [container], "SupportedContentTypes": ["a/b"], "SupportedResponseMIMETypes": ["a/b"]}
    registered = {
        "Name": "register",
        "Type": "RegisterModel",
        "Arguments": {
            "ModelPackageGroupName": "group",
            "InferenceSpecification": specification,
            "CustomerMetadataProperties": {"db_password": place.canaries.new("metadata"), "team": "vision"},
        },
    }
    place.write("definition.json", definition(learnt, registered))
    place.drivetrain("run -d definition.json --json")
    for command in (
        *LOOKS,
        "runs report latest",
        "models list",
        "models list --json",
        "models show group 1",
        "models show group 1 --json",
    ):
        place.drivetrain(command)
    place.search(allowed=lambda path: path.startswith("home/runs/") and path.endswith(KEPT_FOR_RESUMING))


WAYS: tuple[tuple[str, Callable[[Place], None]], ...] = (
    ("the shell", in_the_shell),
    ("a definition", in_a_definition),
    ("settings", in_settings),
    ("an edit", in_an_edit),
    ("an event", in_an_event),
    ("settings", in_settings),
    ("a registration", in_a_registration),
    ("a definition", in_a_definition),
    ("an edit", in_an_edit),
    ("a training", in_a_training),
    ("a shape", by_shape),
    ("a shape", by_shape),
)
