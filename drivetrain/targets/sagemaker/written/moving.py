"""A job whose code lies in S3 as a script of the repository: script(...), or step(train_script, ...)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError, UserError, did_you_mean
from drivetrain.base.json_text import as_list, as_object, object_in, objects_in, parse
from drivetrain.base.records import dataclass
from drivetrain.native.table import Call, is_function
from drivetrain.native.words import TABLES
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.written.references import References, UnsaidError
from drivetrain.targets.written.layout import Called, Code

WORDS: set[str] = {"CachePolicy", "Cluster", "folder_in", "folder_out", "script", "step"}
TRAIN_SCRIPT = "train_script"
_BASE = "/opt/ml/processing"
_TRAINER = {"code", "sm_drivers"}
_CHANNELS = ("train", "validation", "test")
_FILE = re.compile(r"(?:\w[\w.-]*/)*\w[\w.-]*", re.ASCII)
_SCRIPT = re.compile(rf"{_FILE.pattern}\.py", re.ASCII)
"""A script's path that leads nowhere else."""
_OF_THE_SDK = re.compile(r"sagemaker_(program|submit_directory|region|job_name|container_log_level)")


@dataclass(frozen=True)
class Program:
    """The script of a job, and the S3 URI of its file, folder or archive; empty if only the run knows it."""

    step: str
    script: str
    uri: str
    input: str = ""
    """The input of a processing job that brings it."""
    folder: str = "src"
    """Its folder below the pipeline's file, which has the step's name if other steps have such a file, too."""

    @property
    def file(self) -> str:
        """Its place below the pipeline's file."""
        return f"{self.folder}/{self.script}"

    @property
    def command(self) -> str:
        """The command by which a person fetches it."""
        if self.uri.endswith(".tar.gz"):
            return f"mkdir -p {self.folder} && aws s3 cp {shlex.quote(self.uri)} - | tar xz -C {self.folder}"
        if self.uri.endswith(".py"):
            return f"aws s3 cp {shlex.quote(self.uri)} {self.file}"
        return f"aws s3 cp --recursive {shlex.quote(self.uri)} {self.folder}"


@dataclass(frozen=True)
class Move:
    """A step that became a script: its program, and where the script finds its folders now."""

    program: Program
    places: Mapping[str, str]
    refusal: str = ""
    """The reason that the script was not fetched."""

    def lines(self, folder: Path) -> list[str]:
        """Facts for people, and tasks that are left to them."""
        file, is_there = self.program.file, (folder / self.program.file).is_file()
        said = [
            f"{self.program.step} is the script {file} now, and runs once more. The files beside it travel with it."
        ]
        said += [f"  {self.refusal}"] if self.refusal else []
        if not is_there:
            said.append(f"  Fetch it: {self.program.command if self.program.uri else 'only a run knows its URI'}")
        for old, new in self.places.items():
            if old != new:
                said.append(f"  {file} {'finds' if is_there else 'is to find'} {old} at {new}.")
        return said


def program_of(step: StepNode, script: str = "") -> Program | None:
    """The script of a job; None if it names none in Python whose code lies in S3.

    Args:
        script: that of a ModelTrainer's job, which names it in S3 alone.
    """
    if step.type == "Processing":
        command = as_list(object_in(step.arguments, "AppSpecification").get("ContainerEntrypoint"))
        found: dict[str, Program] = {}
        for each in objects_in(step.arguments, "ProcessingInputs"):
            place = object_in(each, "S3Input")
            folder = f"{str(place.get('LocalPath')).rstrip('/')}/"
            for word in command:
                if isinstance(word, str) and word.startswith(folder) and _SCRIPT.fullmatch(word[len(folder) :]):
                    uri = _uri(place.get("S3Uri"))
                    found[folder] = Program(step.name, word[len(folder) :], uri, str(each.get("InputName")))
        return found[max(found, key=len)] if found else None
    if step.type == "Training":
        given = object_in(step.arguments, "HyperParameters")
        own, uri = (_decoded(given.get(f"sagemaker_{name}")) for name in ("program", "submit_directory"))
        if isinstance(own, str) and _SCRIPT.fullmatch(own):
            return Program(step.name, own, _uri(uri))
        channels = {str(each.get("ChannelName")): each for each in objects_in(step.arguments, "InputDataConfig")}
        if channels.keys() >= _TRAINER and _SCRIPT.fullmatch(script):
            place = object_in(object_in(channels["code"], "DataSource"), "S3DataSource")
            return Program(step.name, script, _uri(place.get("S3Uri")))
    return None


def _uri(given: Any) -> str:
    return given if isinstance(given, str) and given.startswith("s3://") else ""


def programs(definition: Definition, moving: tuple[str, ...]) -> dict[str, Program]:
    """The scripts of the steps that are to move.

    Raises:
        UserError: a step that is not there, or that runs no script.
    """
    given = {name: script for name, _, script in (each.partition("=") for each in moving)}
    steps = {step.name: program_of(step, given.get(step.name, "")) for step in definition.walk()}
    found = {name: made for name, made in steps.items() if made is not None}
    for name, one in found.items():
        if any(other.script == one.script and other.uri != one.uri for other in found.values()):
            found[name] = replace(one, folder=f"src/{re.sub(r'[^A-Za-z0-9_-]', '_', name)}")
    for name in given:
        if name not in found:
            what = "is a job without a Python script in S3" if name in steps else "is no step"
            what += "; of a ModelTrainer's, give --moving STEP=SCRIPT.py" if name in steps else ""
            raise UserError(f"--moving {name} {what}. {did_you_mean(name, found) if found else 'No step can move.'}")
    return {name: found[name] for name in given}


def moved(step: StepNode, program: Program, values: References, common: dict[str, Any]) -> tuple[Called, Move]:
    """The step as a script.

    Raises:
        UnsaidError: a part of it has no word there, and means something for the script.
    """
    keywords, rest = TABLES[step.type].read(step.raw)
    for field in ("ProcessingInputs", "ProcessingOutputConfig", "InputDataConfig", "HyperParameters"):
        if field in object_in(rest, "Arguments"):
            raise UnsaidError(f"{field} has an entry that no script takes")
    given: dict[str, Any] = {"name": step.name}
    places: dict[str, str] = {}
    if step.type == "Processing":
        inputs: dict[str, Any] = {}
        for name, each in object_in(keywords, "inputs").items():
            uri, path = _place(name, each)
            if name != program.input:
                called = Path(path).name if re.fullmatch(r"input-\d+", name) else name
                called = name if called in inputs or called == "code" else called
                inputs[called] = values.json(uri)
                places[path.rstrip("/")] = f"{_BASE}/input/{called}"
        outputs = {name: _place(name, each)[1].rstrip("/") for name, each in object_in(keywords, "outputs").items()}
        places |= {path: f"{_BASE}/output/{name}" for name, path in outputs.items()}
        folders = {place: Called("folder_in", (name,)) for name, place in zip(inputs, places, strict=False)}
        folders |= {path: Called("folder_out", (name,)) for name, path in outputs.items()}
        listed = [
            folders.get(each, values.json(each)) if isinstance(each, str) else values.json(each)
            for each in (*_after(keywords.get("command"), program.script), *as_list(keywords.get("arguments")))
        ]
        given |= {"inputs": inputs, "outputs": [*outputs], "arguments": listed}
        function, positional = "script", (program.file,)
    else:
        given |= {"script": program.file, "launcher": "python", **_training(keywords, values)}
        function, positional = "step", (Code(TRAIN_SCRIPT),)
    image, environment = keywords.get("image"), object_in(keywords, "environment")
    given["image"] = values.json(image) if isinstance(image, str) else None
    given["cluster"] = _cluster(keywords, values)
    given["environment"] = {name: values.json(each) for name, each in environment.items()}
    cache = keywords.get("cache")
    age = {"expire_after": cache} if isinstance(cache, str) else {} if cache else {"enabled": False}
    given["cache"] = None if cache is True else Called("CachePolicy", (), age)
    given["retry"] = [values.json(each) for each in as_list(keywords.get("retry")) if isinstance(each, Call)]
    kept = {name: each for name, each in given.items() if each not in (None, {}, [])}
    return Called(function, positional, {**kept, **common}), Move(program, places)


def _cluster(keywords: Mapping[str, Any], values: References) -> Called | None:
    """The machines; what only a run knows of them is left out, but for parameters."""
    given: dict[str, Any] = {}
    for word, name in {"instance_type": "machine", "count": "count"}.items():
        value = keywords.get(name)
        if not is_function(value):
            given[word] = value
        elif (code := values.json(value)) in values.parameters.values():
            given[word] = Code(f"{code}.ref()")
    given |= {"volume_gb": keywords.get("volume"), "max_run_seconds": keywords.get("max_seconds")}
    known = {word: value for word, value in given.items() if value is not None and not is_function(value)}
    return Called("Cluster", (), known) if known else None


def _place(name: str, given: Any) -> tuple[Any, str]:
    """URI and folder of an input or output."""
    if not isinstance(given, Call) or given.keywords or not isinstance(given.positional[1], str):
        raise UnsaidError(f"{name!r} is no folder of files that is copied as a whole")
    return given.positional[0], given.positional[1]


def _after(command: Any, script: str) -> list[Any]:
    """The words of a command behind its script."""
    words = as_list(command)
    at = next(n for n, word in enumerate(words) if isinstance(word, str) and word.endswith(f"/{script}"))
    return words[at + 1 :]


def _training(keywords: Mapping[str, Any], values: References) -> dict[str, Any]:
    """The channels and hyperparameters of a training."""
    given: dict[str, Any] = {}
    own = object_in(keywords, "channels")
    if own.keys() >= _TRAINER:
        own = {name: each for name, each in own.items() if name not in _TRAINER}
        given["contract"] = "model_trainer"
    free = [name for name in _CHANNELS if name not in own]
    names: dict[str, str] = {}
    for name, each in own.items():
        if name not in _CHANNELS:
            if not free:
                raise UnsaidError("it has more than three channels")
            names[free[0]] = name
        uri = each.positional[0] if isinstance(each, Call) else each
        if isinstance(uri, dict) and not is_function(uri):
            raise UnsaidError(f"channel {name!r} is no folder in S3")
        given[name if name in _CHANNELS else free.pop(0)] = values.json(uri)
    if names:
        given["channels"] = json.dumps(names)
    parts: list[Any] = []
    for name, value in object_in(keywords, "hyperparameters").items():
        if _OF_THE_SDK.fullmatch(name):
            continue
        if name.startswith("sagemaker_"):
            raise UnsaidError(f"its hyperparameter {name} starts processes")
        parts += [", " if parts else "{", f"{json.dumps(name)}: "]
        if isinstance(value, str):
            parts.append(json.dumps(_decoded(value)))
            continue
        inner = as_list(object_in(as_object(value), "Std:Join").get("Values"))
        value = inner[0] if len(inner) == 1 else value
        kind = values.types.get(str(as_object(value).get("Get")).removeprefix("Parameters."), "String")
        quote = [] if kind in ("Integer", "Float") else ['"']
        parts += [*quote, values.json(value), *quote]
    if parts:
        given["hyperparameters"] = _joined([*parts, "}"])
    return given


def _joined(parts: list[Any]) -> Any:
    """One text of texts and references."""
    merged: list[Any] = []
    for part in parts:
        plain = isinstance(part, str) and not isinstance(part, Code)
        if plain and merged and isinstance(merged[-1], str) and not isinstance(merged[-1], Code):
            merged[-1] += part
        else:
            merged.append(part)
    return merged[0] if len(merged) == 1 else Called("join", tuple(merged))


def _decoded(value: Any) -> Any:
    """A hyperparameter, which the SDK writes as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value, "a hyperparameter")
    except UserError:
        return value


def fetched(move: Move, folder: Path) -> Move:
    """The move, once its script lies beside the pipeline's file, with the folders where it finds them now. A script
    that is there stays; `refusal` says why one is not fetched."""
    import zlib

    from drivetrain.aws.s3 import Client, split
    from drivetrain.steps.start import StartError

    program = move.program
    target = folder / program.file
    if target.exists():
        return replace(move, refusal=f"{program.file} is there already, and stays as it is.")
    if not program.uri:
        return move
    bucket, key = split(program.uri)
    try:
        client = Client(bucket, purpose="scripts", permissions=["s3:GetObject", "s3:ListBucket"])
        if key.endswith(".tar.gz"):
            _unpacked(bytes(client.fetch(key)[0]), folder / program.folder)
            return move
        prefix = key.rstrip("/") + "/"
        listed: dict[str, Any] = {} if key.endswith(".py") else client.call("list_objects_v2", "list", Prefix=prefix)
        keys = [str(each.get("Key")) for each in objects_in(listed, "Contents")]
        names = {each: each.removeprefix(prefix) for each in keys} or {key: program.script}
        contents = {name: bytes(client.fetch(each)[0]) for each, name in names.items() if _FILE.fullmatch(name)}
    except (OSError, EOFError, zlib.error, InputError, StartError) as error:  # an archive that is none is an OSError
        return replace(move, refusal=str(error))
    old = "|".join(re.escape(each) for each in sorted(move.places, key=len, reverse=True))
    found = re.compile(rf"(?:{old})(?![\w.-])".encode())
    for name, content in contents.items():
        if old and name == program.script:
            content = found.sub(lambda one: move.places[one[0].decode()].encode(), content)
        target = folder / program.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.write_bytes(content)
    return move


def _unpacked(content: bytes, folder: Path) -> None:
    """Put the files of an archive into a folder, beside those that are there."""
    import gzip
    import io
    import shutil
    import tempfile

    from drivetrain.steps.start import MAX_BYTES, unpack

    with tempfile.TemporaryDirectory() as given:
        archive, found = Path(given, "code.tar"), Path(given, "code")
        with gzip.open(io.BytesIO(content)) as packed:
            archive.write_bytes(packed.read(MAX_BYTES))
        found.mkdir()
        unpack(str(archive), str(found))
        for file in (each for each in found.rglob("*") if each.is_file()):
            target = folder / file.relative_to(found)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
