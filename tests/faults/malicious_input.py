"""Whatever comes in as data (definitions, settings, patches, plans, events, archives, edits of a deployed pipeline)
carries a command, a path that leaves its folder, or a bomb: nothing runs, nothing is written outside, no trace is
shown, and what is refused is refused within a second."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drivetrain
from tests.faults.harness import exploits
from tests.faults.harness.attack import MOST_MEMORY, VICTIM, Attack, Shared
from tests.faults.harness.command import PRELOAD as OF_COMMANDS
from tests.faults.harness.command import warm
from tests.faults.harness.definitions import definition, processing_step, training_step, worded
from tests.faults.harness.exploits import Exploit
from tests.faults.harness.families import Found, Trial

FAULT = "malicious definition, settings, patch, plan, event or archive: 0 executions, 0 writes outside, refused in 1 s"
TRIALS, QUICK, AT_ONCE = 1_000, 7, 3
PRELOAD = ("tests.faults.harness.attack", "tests.fixtures.sagemaker_service.server", *OF_COMMANDS)
PATIENCE_S = 240.0

# Of so many trials the commands of one are started as users start them.
LAUNCHED_ONE_OF = 33
START = Path(drivetrain.__file__).parent / "steps" / "start.py"
EPOCHS = b"epochs: "
# Where in a patch a value stands that the settings have under `epochs`.
IN_A_PATCH = (
    b"pipeline: retraining\nedits:\n- place: steps.train.Arguments.HyperParameters.epochs\n  was: '20'\n  now: "
)

YAML = (
    Exploit("tags", exploits.yaml_tags, exploits.believe_yaml),
    Exploit("a tag directive", exploits.yaml_tag_directive, exploits.believe_yaml),
    Exploit("Python", exploits.python_text, exploits.believe_python),
    Exploit("aliases", exploits.yaml_aliases),
    Exploit("nesting", exploits.yaml_nested),
    Exploit("size", exploits.yaml_oversized),
    Exploit("numbers", exploits.yaml_numbers),
)
JSON = (
    *YAML[:4],
    Exploit("nesting", exploits.json_nested),
    Exploit("size", exploits.json_oversized),
)
DEFINITION = (
    "import evil.json",
    "import evil.json -o written.json",
    "check evil.json",
    "check evil.json --json",
    "diff evil.json good.json",
    "diff good.json evil.json --json",
    "show evil.json",
    "show evil.json -o written.svg",
    "show evil.json -o written.html",
    "run -d evil.json",
    "plan -d evil.json -c account.yaml",
    "apply -d evil.json -c account.yaml --yes",
)
SETTINGS = (
    "check retraining -c evil.yaml",
    "compile retraining -c evil.yaml",
    "show retraining -c evil.yaml",
    "diff good.json retraining -c evil.yaml",
    "run retraining -c evil.yaml",
    "plan retraining -c evil.yaml",
    "pull retraining -c evil.yaml",
    "start retraining -c evil.yaml",
    "run -d good.json -c evil.yaml",
)
PATCHED = (
    "check retraining -c account.yaml",
    "compile retraining -c account.yaml -o written.json",
    "show retraining -c account.yaml",
    "diff good.json retraining -c account.yaml",
    "run retraining -c account.yaml",
    "plan retraining -c account.yaml",
    "apply retraining -c account.yaml --yes",
)


def prepare(folder: Path) -> Shared:
    warm()
    return Shared()


def trial(given: Trial, shared: Shared) -> Found:
    attack = Attack(given, shared, launched=given.number % LAUNCHED_ONE_OF == LAUNCHED_ONE_OF // 2)
    name, vector = given.in_turn(VECTORS)
    attack.did[f"by {name}"] += 1
    vector(attack)
    if left := list(attack.temporary.iterdir()):
        attack.violations.append(f"{attack.told}: {left} is left")
    return Found([f"{name}: {text}" for text in attack.violations], dict(attack.did))


def by_definition(attack: Attack) -> None:
    attack.write("evil.json", attack.content(attack.draw.choice(JSON)))
    attack.drivetrain(attack.draw.choice(DEFINITION), refused=True)


def by_compiled(attack: Attack) -> None:
    """As if it were a pipeline that was compiled for Kubeflow."""
    attack.write("evil.yaml", attack.content(attack.draw.choice(YAML)))
    attack.drivetrain(attack.draw.choice(("check evil.yaml", "check evil.yaml --json")), refused=True)


def by_settings(attack: Attack) -> None:
    content = attack.content(attack.draw.choice(YAML))
    beside = attack.draw.random() < 0.3  # found by itself
    attack.write("retraining.yaml" if beside else "evil.yaml", content)
    command = attack.draw.choice([each for each in SETTINGS if "-d" not in each] if beside else SETTINGS)
    attack.drivetrain(command.removesuffix(" -c evil.yaml") if beside else command, refused=True)
    if beside:  # which describes them without reading them
        assert attack.drivetrain("schema settings retraining").code == 0


def by_setting(attack: Attack) -> None:
    content = attack.content(attack.draw.choice(YAML[:1] + YAML[2:4])).removeprefix(EPOCHS)
    text = content.decode().strip()[:100_000]
    command = attack.draw.choice(("check", "compile", "show", "run", "plan", "pull"))
    if attack.draw.random() < 0.5:
        attack.drivetrain([command, "retraining", "--set", f"epochs={text}"], refused=True)
    else:
        attack.drivetrain([command, "retraining"], refused=True, DRIVETRAIN_EPOCHS=text)


def by_patch(attack: Attack) -> None:
    exploit = attack.draw.choice((*YAML[:2], *YAML[3:6]))
    content = attack.content(exploit, lambda text: text.replace(EPOCHS, IN_A_PATCH, 1))
    attack.write("retraining.studio.yaml", content)
    attack.drivetrain(attack.draw.choice(PATCHED), refused=True)


def by_plan(attack: Attack) -> None:
    attack.write("evil.json", attack.content(attack.draw.choice(JSON)))
    attack.drivetrain("apply --plan evil.json --yes", refused=True)


def by_event(attack: Attack) -> None:
    attack.write("evil.json", attack.content(attack.draw.choice(JSON)))
    attack.drivetrain("triggers replay evil.json retraining", refused=True)


def by_words(attack: Attack) -> None:
    """A definition in order whose texts are commands to a shell: it is looked at, and run, and they stay texts."""
    seed = attack.draw.random()
    attack.told = "words of a shell"
    program = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('WORDS')]))"

    def made(canary: Path) -> bytes:
        return json.dumps(worded(exploits.shell_words(random.Random(seed), canary), program)).encode()

    attack.believed(exploits.believe_shell, made)
    attack.write("evil.json", made(attack.canary))
    for command in attack.draw.sample([each for each in DEFINITION if not each.startswith("run")], 3):
        attack.drivetrain(command)
    ended = attack.drivetrain("run -d evil.json --stub odd")
    words = exploits.shell_words(random.Random(seed), attack.canary)
    logs = [log.read_text() for log in (attack.work / "home").rglob("*.log")]
    seen = [json.loads(line) for log in logs for line in log.splitlines() if line.startswith("[[")]
    if seen != [[[*words, f"--name={words[0]}"], words[1]]]:
        attack.violations.append(f"the program was given {seen} instead of {words}\n{ended}")
    for command in ("runs list", "runs show latest", "runs report latest", "runs logs latest work", "show latest"):
        attack.drivetrain(command)


def by_deployed(attack: Attack) -> None:
    """Somebody who may edit the deployed pipeline puts commands into it; it is pulled and compiled."""
    attack.told = "an edit"
    if (ended := attack.drivetrain("apply retraining -c account.yaml --yes")).code != 0:
        attack.violations.append(f"the pipeline could not be applied\n{ended}")
        return
    seed = attack.draw.random()

    def texts(canary: Path) -> list[str]:
        draw = random.Random(seed)
        tagged = exploits.yaml_tags(draw, canary).decode().removeprefix("epochs: ").strip()
        return [*exploits.shell_words(draw, canary), tagged, f"\n- place: {tagged}\n", f"*/ {tagged}", "../../../x"]

    attack.believed(exploits.believe_shell, lambda canary: json.dumps(texts(canary)).encode())
    sagemaker = attack.account.client("sagemaker")
    edited = json.loads(sagemaker.describe_pipeline(PipelineName="retraining")["PipelineDefinition"])
    train = next(step for step in edited["Steps"] if step["Name"] == "train")
    words = texts(attack.canary)
    attack.draw.shuffle(words)
    train["Arguments"]["HyperParameters"] |= {"epochs": words[0], words[1]: words[2]}
    train["DisplayName"], train["Description"] = words[3][:200], words[4]
    edited["Steps"].append({"Name": "added", "Type": "HubContent", "Arguments": {words[5]: [words[6]]}, words[0]: 1})
    edited["Metadata"] = {words[1]: {"a": words[2]}}
    sagemaker.update_pipeline(PipelineName="retraining", PipelineDefinition=json.dumps(edited))
    if (ended := attack.drivetrain("pull retraining -c account.yaml")).code != 0:
        attack.violations.append(f"the edit could not be pulled\n{ended}")
        return
    for command in attack.draw.sample(PATCHED[:4], 2):
        attack.drivetrain(command)
    attack.drivetrain("compile retraining -c account.yaml -o written.json")
    compiled = json.loads((attack.work / "written.json").read_text())
    found = next(step for step in compiled["Steps"] if step["Name"] == "train")
    if found["Arguments"]["HyperParameters"] != train["Arguments"]["HyperParameters"]:
        attack.violations.append(f"the edit came back as {found['Arguments']['HyperParameters']}")


def by_paths(attack: Attack) -> None:
    """Objects whose keys lead out of the store, written and read by a step."""
    seed = attack.draw.random()
    attack.told = "a path that leaves the store"
    attack.believed(
        exploits.believe_paths, lambda canary: json.dumps([exploits.paths_out(random.Random(seed), canary)]).encode()
    )
    uri = exploits.paths_out(random.Random(seed), attack.canary)
    folder = "/opt/ml/processing/data"
    way = attack.draw.choice(("output", "input", "property file", "local path", "file uri"))
    program = f"import os; os.makedirs({folder!r}, exist_ok=True); open({folder + '/canary'!r}, 'w').write('x')"
    step = processing_step("work", program)
    arguments = step["Arguments"]
    output = {"OutputName": "data", "S3Output": {"S3Uri": uri, "LocalPath": folder, "S3UploadMode": "EndOfJob"}}
    if way == "input":
        victim = uri.replace(str(attack.canary), str(attack.outside / "victim.json"))
        arguments["ProcessingInputs"] = [{"InputName": "in", "S3Input": {"S3Uri": victim, "LocalPath": folder}}]
        reading = (
            f"import os, sys; [print(open(os.path.join(at, name)).read()) for at, _, names in os.walk({folder!r}) "
        )
        step["Arguments"]["AppSpecification"]["ContainerEntrypoint"][2] = f"{reading}for name in names]"
    elif way == "property file":
        output["S3Output"]["S3Uri"] = "s3://bucket/out"
        step["PropertyFiles"] = [
            {"PropertyFileName": "f", "OutputName": "data", "FilePath": uri.removeprefix("s3://bucket/")}
        ]
    elif way == "local path":
        output["S3Output"] |= {"S3Uri": "s3://bucket/out", "LocalPath": f"{folder}/../../../..{attack.outside}"}
    elif way == "file uri":
        output["S3Output"]["S3Uri"] = f"file://{attack.canary}"
    if way != "input":
        arguments["ProcessingOutputConfig"] = {"Outputs": [output]}
    attack.write("evil.json", json.dumps(definition(step)).encode())
    attack.told += f" ({way} {uri})"
    ended = attack.drivetrain("run -d evil.json")
    read = [log for log in (attack.work / "home").rglob("*.log") if VICTIM in log.read_text()]
    if read or any(
        VICTIM in path.read_text("utf-8", "replace") for path in (attack.work / "home" / "s3").rglob("*.json")
    ):
        attack.violations.append(f"{attack.told}: it was read\n{ended}")


def by_names(attack: Attack) -> None:
    """Names that would be files and folders."""
    name = attack.draw.choice(
        ("../../../canary", str(attack.canary), "..", "a/../../../../canary", "canary\0x", "\x1b[31mred")
    )
    attack.told = f"the name {name!r}"
    step = processing_step("work", "print(1)")
    where = attack.draw.choice(("step", "input", "output", "parameter", "property file"))
    output = {"OutputName": "data", "S3Output": {"S3Uri": "s3://bucket/o", "LocalPath": "/opt/ml/processing/o"}}
    parameters: list[Any] = []
    if where == "step":
        step["Name"] = name
    elif where == "input":
        given = {"S3Uri": "s3://bucket/in", "LocalPath": "/opt/ml/processing/in"}
        step["Arguments"]["ProcessingInputs"] = [{"InputName": name, "S3Input": given}]
    elif where == "output":
        output["OutputName"] = name
    elif where == "parameter":
        parameters = [{"Name": name, "Type": "String", "DefaultValue": name}]
    else:
        step["PropertyFiles"] = [{"PropertyFileName": name, "OutputName": "data", "FilePath": "a.json"}]
    step["Arguments"]["ProcessingOutputConfig"] = {"Outputs": [output]}
    attack.write("evil.json", json.dumps(definition(step, parameters=parameters)).encode())
    attack.did[f"name of {where}"] += 1
    for command in (attack.draw.choice(DEFINITION), "run -d evil.json"):
        attack.drivetrain(command)


def by_archive(attack: Attack) -> None:
    """The code of a step, the source of a training: unpacked by programs that run in the step."""
    slips = attack.draw.random() < 0.75
    made = Exploit("an archive that leaves its folder", exploits.tar_that_leaves, exploits.believe_tar)
    archive = attack.content(made if slips else Exploit("an archive that grows", exploits.tar_that_grows))
    digest = hashlib.sha256(archive).hexdigest()
    if attack.draw.random() < 0.5:
        attack.write("home/s3/bucket/code/start.py", START.read_bytes())
        attack.write(f"home/s3/bucket/code/{digest}.tar.gz", archive)
        step = processing_step("work", "")
        step["Arguments"]["ProcessingInputs"] = [
            {
                "InputName": "code",
                "S3Input": {"S3Uri": "s3://bucket/code/", "LocalPath": "/opt/ml/processing/input/code"},
            }
        ]
        step["Arguments"]["AppSpecification"] |= {
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/start.py"],
            "ContainerArguments": ["--code", digest, "script:train.py"],
        }
    else:
        attack.write("home/s3/bucket/source.tar.gz", archive)
        source = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": '"s3://bucket/source.tar.gz"'}
        step = training_step("work", source)
    attack.write("evil.json", json.dumps(definition(step)).encode())
    ended = attack.drivetrain("run -d evil.json")
    if ended.code != 2:
        attack.violations.append(f"{attack.told} was taken\n{ended}")
    if ended.memory > MOST_MEMORY:
        attack.violations.append(f"{attack.told} took {ended.memory >> 20} MiB")


VECTORS: tuple[tuple[str, Callable[[Attack], None]], ...] = (
    ("definition", by_definition),
    ("settings", by_settings),
    ("patch", by_patch),
    ("words", by_words),
    ("definition", by_definition),
    ("setting", by_setting),
    ("plan", by_plan),
    ("paths", by_paths),
    ("event", by_event),
    ("settings", by_settings),
    ("archive", by_archive),
    ("deployed", by_deployed),
    ("names", by_names),
    ("compiled", by_compiled),
)
