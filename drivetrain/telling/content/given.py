"""Inputs and results of a run, the inputs that differ from the previous run's, and the commands that go on from it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.base.records import dataclass
from drivetrain.run_store.home import saved_options, why_not_resumed
from drivetrain.steps import CODE_CHANNEL, FRESH_PARAMETER, gather
from drivetrain.telling.content import Changed, RunFacts

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import Run
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.run.options import Request

# No setting or parameter can have a name with a space.
TARGET, _STARTS = "target platform", " starts from"
_ARCHIVES = (".tar.gz", ".tgz")
_BEFORE = "WHERE pipeline = ? AND rowid < (SELECT rowid FROM executions WHERE id = ?) ORDER BY rowid DESC LIMIT 1"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One of the runs. `given` are the settings of its pipeline, `target` the platform that it was compiled for; empty
    where its folder was removed."""

    facts: RunFacts
    target: str = ""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def settings(self) -> dict[str, Any]:
        """The target, settings and parameters of the pipeline, `STEP.SETTING` of its steps, and what trainings started
        from."""
        starts = {f"{step.name}{_STARTS}": step.starts_from for step in self.facts.steps if step.starts_from}
        of_steps = {f"{step.name}.{name}": text for step in self.facts.steps for name, text in step.settings.items()}
        target = {TARGET: self.target} if self.target else {}
        return {**target, **self.given, **self.facts.parameters, **of_steps, **starts}

    @property
    def step_seconds(self) -> float:
        """The time of all steps that ran, one after the other; what came from the cache took none."""
        ran = [step for step in self.facts.steps if step.parent is None and step.cache_of is None]
        return sum(step.seconds or 0.0 for step in ran)

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that the steps returned, by name; `STEP.NAME` if several steps returned one of that name."""
        names = [name for one in self.facts.measured for name in one.numbers]
        return {
            name if names.count(name) == 1 else f"{one.step}.{name}": value
            for one in self.facts.measured
            for name, value in one.numbers.items()
        }

    @property
    def data(self) -> dict[str, tuple[bool, str]]:
        """`STEP.INPUT` -> whether it was read as an archive, and the hash of what was read; code is told of apart."""
        return {
            f"{each.step}.{each.name}": (each.uri.endswith(_ARCHIVES), each.digest)
            for each in self.facts.artifacts
            if each.flow == "input" and each.name != CODE_CHANNEL
        }


def settings(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of a job's program (its hyperparameters and flags, without paths) and its machines."""
    found: dict[str, str] = {}
    processing = object_in(arguments, "ProcessingResources")
    cluster = object_in(processing, "ClusterConfig") or object_in(arguments, "ResourceConfig")
    if kind := cluster.get("InstanceType"):
        found["machine"] = (
            str(kind) if str(cluster.get("InstanceCount", 1)) == "1" else (f"{cluster['InstanceCount']} x {kind}")
        )
    found |= {name: str(value) for name, value in object_in(arguments, "HyperParameters").items()}
    given = object_in(arguments, "AppSpecification").get("ContainerArguments")
    flags = [str(word) for word in gather(cast("list[Any]", given))] if isinstance(given, list) else []
    for flag, value in pairwise(flags):
        name = flag.removeprefix("--").replace("-", "_")
        if flag.startswith("--") and name != "code" and not value.startswith(("--", "/opt/ml/")):
            found[name] = value
    return found


def changed_since_last(ledger: Ledger, row: Run, steps: Mapping[str, Mapping[str, str]]) -> Changed | None:
    """The differences from the pipeline's previous run; None for its first run.

    Args:
        steps: step -> its settings. Those of a step that only one of the runs has are left out.
    """
    earlier = ledger.selected(_BEFORE, row.pipeline, row.id)
    if not earlier:
        return None
    before = {step.name: settings(step.arguments) for step in ledger.steps(earlier[0].id) if step.arguments}

    def given(parameters: Mapping[str, Any], of: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        both = [step for step in of if step in before and step in steps]
        return {**parameters, **{f"{step}.{name}": value for step in both for name, value in of[step].items()}}

    values = differing([given(earlier[0].parameters, before), given(row.parameters, steps)])
    return Changed(since=earlier[0].id, values={name: (pair[0], pair[1]) for name, pair in values.items()})


def differing(every: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Name -> its value in each, of those that are not the same in all."""
    found = {name: tuple(each.get(name) for each in every) for name in dict.fromkeys(n for e in every for n in e)}
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}


def given_settings(home: Home, execution: str) -> dict[str, Any]:
    """The settings of the pipeline with their values, defaults included; empty where the run was made of a Pipeline
    object, or its folder was removed. Of a run of an earlier version, the text of those that it was started with."""
    options = saved_options(home.run(execution))
    if settings := options.get("settings"):
        return dict(settings)
    origin: Mapping[str, Any] = options.get("origin") or {}
    return dict(text.partition("=")[::2] for text in origin.get("set", ()))


def commands_of(ledger: Ledger, row: Run) -> tuple[tuple[str, str], ...]:
    """The actions on a run: (words, command). Values that look like secrets read `***`."""
    from drivetrain.targets.sagemaker.run.options import Request

    folder = ledger.home.run(row.id)
    found: list[tuple[str, str]] = []
    if row.status in ("Failed", "Stopped", "Interrupted") and why_not_resumed(folder) is None:
        found.append(("Go on", f"drivetrain runs resume {row.id}"))
    try:
        again = run_again(Request.load(folder))
    except UserError:
        return tuple(found)  # its folder was removed
    if again is not None:
        found.append(("Run it again", shlex.join(["drivetrain", *again.shown])))
    found.append(("Look at it from Python", f'dt.Run("{row.id}")'))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class RunAgain:
    """The command line that asks for a run once more, without `drivetrain`; `shown` is it without secrets. `folder` is
    where it was given, and `why_not` why nobody but the user can give it again."""

    words: tuple[str, ...]
    shown: tuple[str, ...]
    folder: Path
    why_not: str | None = None


def run_again(request: Request) -> RunAgain | None:
    """How to ask for a run once more; None of one that was made of a definition or an object."""
    from drivetrain.base.masking import Masking

    options, origin = request.options, request.options.origin
    if origin is None:
        return None
    defaults = {each["Name"]: each.get("DefaultValue") for each in json.loads(request.text).get("Parameters", ())}
    parameters = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in request.parameters.items()
        if name != FRESH_PARAMETER and value != defaults.get(name)
    }
    settings = {name: value for name, _, value in (text.partition("=") for text in origin["set"])}
    masking = Masking.of(settings, parameters)
    given_to: dict[str, Mapping[str, str]] = {
        "--lambda": options.functions,
        "--callback": options.callbacks,
        "--data": options.data,
        "--image-command": {image: shlex.join(command) for image, command in options.image_commands.items()},
        "--tag": options.tags,
    }
    more = [word for name, pairs in given_to.items() for word in _pairs(name, pairs)]
    more += [word for step, values in options.stubs.items() for word in ("--stub", f"{step}=FILE" if values else step)]
    if options.selected:
        more += ["--select", ",".join(options.selected)]
        more += ["--from", options.selected_from] if options.selected_from else []
    more += ["--no-cache"] if not options.cache else []
    more += ["--paths", options.mode] if options.mode != "auto" else []
    start = ["run", str(origin["target"]), *(("-c", str(origin["config"])) if origin.get("config") else ())]
    words = (*start, *_pairs("--set", settings), *_pairs("--param", parameters), *more)
    shown = (*start, *_pairs("--set", masking(settings)), *_pairs("--param", masking(parameters)), *more)
    why_not = None
    if any(options.stubs.values()):
        why_not = "what its stubs give was in files (--stub)"
    elif words != shown:
        why_not = "a value looks like a secret, and others on this machine can read command lines"
    elif not (folder := Path(origin.get("folder", ""))).is_absolute() or not folder.is_dir():
        why_not = "the folder where it was started is not there any more"
    return RunAgain(words=words, shown=shown, folder=Path(origin.get("folder", "")), why_not=why_not)


def _pairs(option: str, pairs: Mapping[str, str]) -> list[str]:
    return [word for name, value in pairs.items() for word in (option, f"{name}={value}")]


def shown_value(value: Any) -> str:
    """A value as it is written in a table; a dash for none."""
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
