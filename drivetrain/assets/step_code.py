"""Find the user's files that a step uses: what its program imports, and what that imports in turn; and which rooms of
the package.

    code = StepCode(folder, Graph(pipeline))
    code.of(step).files     # path below the folder -> bytes: what travels with this step, and decides its cache key
    code.of(step).rooms     # folders of the package, and components as `components/NAME`: what travels, too

An edit elsewhere leaves the step's code as it is. The user's are counted by file. Where a file may load others that it
does not name, the whole folder counts, and `Used.whole` says why. The package's are counted by room, since its files
load each other by name; a room is used where the text of a file names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drivetrain
from drivetrain.assets import source_files
from drivetrain.base.records import dataclass
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import CALIBRATE, COMPARE, DESCRIBE_MODEL, MAKE_MODELS_OF_FUNCTIONS, REGISTER_MODEL
from drivetrain.spec.steps import TRAIN_SCRIPT, BaseStep, JobStep, RegisterStep, TuningStep, flatten
from drivetrain.spec.training_options import OneOf
from drivetrain.spec.values import ParameterRef

if TYPE_CHECKING:
    from drivetrain.assets.module_facts import Import

_OURS = "drivetrain."
# Parameters of our components that may name a module of the user's.
_NAME_MODULES = frozenset(("recipe", "reader", "health_rules", "scoring", "plan", "script"))
# Of our components those that load a model, whose recipe its folder names, and the input by which it comes.
_LOAD_MODELS = {
    **{f"drivetrain.components.{name}:{name}": "model" for name in ("batch_predict", "evaluate")},
    CALIBRATE: "trained",
}
# These bring models from elsewhere, and this one loads such: whatever pipeline made one, its recipe may be any file.
_BRING_MODELS = frozenset(f"drivetrain.components.{name}:{name}" for name in ("fetch_previous", "train_on_sagemaker"))
_WORDS = re.compile(r"[A-Za-z_][\w./-]*")
# Python imports them by itself.
_ALWAYS = ("sitecustomize.py", "usercustomize.py")
# The rooms of the package that travel, and those that each needs.
_OF_TRAINING = ("aws", "base", "data", "registry", "steps")
ROOMS: Mapping[str, tuple[str, ...]] = {
    "aws": ("base",),
    "base": (),
    "components": ("base", "steps"),
    "data": ("aws", "base"),
    "decision": ("base", "data", "registry"),
    "registry": ("aws", "base"),
    "steps": ("aws", "base"),
    "training": (*_OF_TRAINING, "training_scripts"),
    "training_scripts": (*_OF_TRAINING, "training"),
}
ALL_ROOMS = frozenset(ROOMS)
_MENTIONED = re.compile(r"\bdrivetrain[./](\w+)(?:[./](\w+))?")
_IMPORTED = re.compile(r"\bfrom\s+drivetrain(\.components)?\s+import\s*(\([^)]*\)|[^\n]*)")
# What may load a room that the text does not name, by a computed name or with an object.
_LOADS_ANY = re.compile(
    r"\b(?:import_module|__import__|runpy|pkgutil|find_spec|(?<!\.)exec|(?<!\.)eval|\w*[Pp]ickler?|joblib|dill|shelve|skops|"
    r"allow_pickle|load_model|Value|torch\s*\.\s*load)\b"
)


@dataclass(frozen=True)
class Used:
    """The files of a step.

    Attributes:
        files: path below the folder -> content.
        whole: why all files of the folder are among them; "" where only those are that it imports.
        rooms: of the package; of `components` those that are named, as `components/NAME`, or all.
    """

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    whole: str = ""
    rooms: frozenset[str] = ALL_ROOMS


NOTHING = Used()


@dataclass(frozen=True)
class _Reach:
    """The reach of some files: all of it, what may load any other file, what loads objects, and what is
    given some."""

    files: frozenset[str]
    loads_any: str = ""
    unpickles: str = ""
    values: str = ""


class StepCode:
    """The user's files, and what of them each step of a pipeline uses.

    Args:
        source: folder of the user's pipeline file; None of a pipeline that comes with the package.
    """

    def __init__(self, source: Path | None, graph: Graph) -> None:
        self.source, self.graph = source, graph
        self._content: dict[str, bytes] = {}
        self._reached: dict[tuple[frozenset[str], str], _Reach] = {}
        self._used: dict[tuple[frozenset[str], str, frozenset[str]], Used] = {}
        self._names: dict[str, tuple[frozenset[str], str]] = {}
        self._before: dict[str, tuple[frozenset[str], str]] = {}
        self._loads_any = set[str]()
        """Steps that may load any file."""

    @cached_property
    def travelling(self) -> frozenset[str]:
        """The files that may travel, by their paths in the folder."""
        if self.source is None:
            return frozenset()
        return frozenset(file.relative_to(self.source).as_posix() for file in source_files(self.source))

    def of(self, step: BaseStep | None) -> Used:
        """The files and rooms that a step uses; no files where no program of the user's runs."""
        names, whole = frozenset[str](), ""
        if self.source is not None and isinstance(step, JobStep):
            names, whole = self._names_of(step)
        key = names, whole, self._rooms_of(step, names)
        if key not in self._used:
            self._used[key] = Used({name: self._read(name) for name in sorted(names)}, whole, key[2])
        return self._used[key]

    def _rooms_of(self, step: BaseStep | None, names: frozenset[str]) -> frozenset[str]:
        """The rooms of the package that a step uses, which has these files of the user's."""
        if not isinstance(step, JobStep):
            return rooms_named((REGISTER_MODEL,) if isinstance(step, RegisterStep) else ())
        if step.name in self._loads_any or not (step.program.target.startswith(_OURS) or names):
            return ALL_ROOMS
        texts = [self._read(name).decode("utf-8", "replace") for name in names]
        if any(map(_LOADS_ANY.search, texts)):
            return ALL_ROOMS
        given = (text for _, value in _given(step) for text in self._texts(value) or ())
        return rooms_named((step.program.target, *given, *texts))

    def notes(self) -> Iterator[str]:
        """A line for each step whose code is the whole folder, though it names fewer files; and one for each model
        that brings code, which runs where the model is loaded."""
        for step in self.graph.steps:
            if isinstance(step, JobStep) and step.program.target == DESCRIBE_MODEL:
                module = step.parameters.get("answers", "answer")
                module = getattr(module, "name", module)
                yield f"Step {step.name!r}: loading this model runs code, its module {module!r}, wherever it is asked."
            why = self.of(step).whole
            if why and isinstance(step, JobStep) and step.program.target != COMPARE:
                yield f"Step {step.name!r}: an edit of any Python file in {self.source} runs it again, since {why}."

    def _names_of(self, step: JobStep) -> tuple[frozenset[str], str]:
        if step.name not in self._names:
            reach = self._own(step)
            names, why = reach.files, reach.loads_any
            loads = reach.unpickles or (reach.values if step.inputs else "")
            if not why and (loads or (step.program.target in _LOAD_MODELS and not self._brings_code(step))):
                names, why = self._with_producers(step, loads or "it loads a model")
            if why:
                self._loads_any.add(step.name)
            whole = why and names < self.travelling
            self._names[step.name] = (self.travelling, why) if whole else (names, "")
        return self._names[step.name]

    def _brings_code(self, step: JobStep) -> bool:
        """Return True if the model that a step loads brings the user's modules along."""
        made = self.graph.maker(step.inputs.get(_LOAD_MODELS[step.program.target]))
        return made is not None and made.program.target in MAKE_MODELS_OF_FUNCTIONS

    def _own(self, step: JobStep) -> _Reach:
        """The reach of a step's program and parameters."""
        target, roots, place = step.program.target, set[str](), ""
        if step.program.kind == "component" and not target.startswith(_OURS):
            roots |= self._module(target.partition(":")[0], ("",))
            if not roots:
                return _Reach(frozenset(), f"its program {target} does not lie there")
        else:
            script = target if step.program.kind == "script" else step.parameters.get("script")
            if target == TRAIN_SCRIPT and ("source" in step.inputs or not isinstance(script, str)):
                return _Reach(frozenset(), "its script is known only when it runs")
            if isinstance(script, str) and script in self.travelling:
                roots.add(script)
                place = script.rpartition("/")[0]
            for name, value in _given(step):
                texts = self._texts(value)
                if texts is None and name in _NAME_MODULES:
                    return _Reach(frozenset(), f"its {name} is known only when it runs")
                roots |= self._named(texts or (), place)
        if target == COMPARE:
            return _Reach(frozenset(), "it may load any registered model")
        return self._reach(frozenset(roots), place)

    def _with_producers(self, step: JobStep, why: str) -> tuple[frozenset[str], str]:
        """The files of a step that loads objects: Python imports their modules by name, which the steps that made them
        have imported, too. What comes from elsewhere may be of any."""
        only = _LOAD_MODELS.get(step.program.target)
        inputs = {name: value for name, value in step.inputs.items() if only in (None, name)}
        for name, value in inputs.items():
            producer = self.graph.producer(value)
            if producer is None or producer.program.target in _BRING_MODELS:
                return frozenset(), f"{why}, and its input {name!r} comes from outside of the pipeline"
        if not inputs:
            return frozenset(), f"{why}, from outside of the pipeline"
        return self._with_all_before(step)

    def _with_all_before(self, step: JobStep) -> tuple[frozenset[str], str]:
        """The reach of a step and all steps before it."""
        reach = self._own(step)
        names, why = set(reach.files), reach.loads_any
        seen, pending = {step.name}, set(self.graph.needs[step.name])
        while pending:
            for before in flatten((self.graph.by_name[pending.pop()],)):
                if before.name in seen:
                    continue
                seen.add(before.name)
                if before.name in self._before:
                    found, whole = self._before[before.name]
                elif isinstance(before, JobStep):
                    pending |= self.graph.needs[before.name]
                    found, whole = (own := self._own(before)).files, own.loads_any
                else:
                    pending |= self.graph.needs[before.name]
                    continue
                names |= found
                why = why or whole
        self._before[step.name] = frozenset(names), why
        return self._before[step.name]

    def _texts(self, value: Any) -> tuple[str, ...] | None:
        """The values that a parameter may have; None if they are not known yet."""
        if isinstance(value, ParameterRef):
            declared = self.graph.parameters.get(value.name)
            return tuple(map(str, declared.choices)) if declared is not None and declared.choices else None
        return (value,) if isinstance(value, str) else None

    def _named(self, texts: tuple[str, ...], place: str) -> set[str]:
        """The files that words of texts name, as modules or by their paths."""
        found: set[str] = set()
        for text in texts:
            for word in (each.strip("./-") for each in _WORDS.findall(text)):
                found |= {word} & self.travelling if word.endswith(".py") else self._module(word, ("", place))
        return found

    def _module(self, name: str, places: tuple[str, ...]) -> set[str]:
        """The file of a module, found from the folders from which the program imports."""
        paths = [f"{place}/{name.replace('.', '/')}".lstrip("/") for place in places]
        return {file for path in paths for file in (f"{path}.py", f"{path}/__init__.py")} & self.travelling

    def _reach(self, roots: frozenset[str], place: str) -> _Reach:
        """Follow what some files import, and that in turn.

        Args:
            place: the folder of the script that runs, from which Python imports, too.
        """
        if (roots, place) not in self._reached:
            seen: set[str] = set()
            loads_any, unpickles, values = list[str](), list[str](), list[str]()
            pending = {*roots, *(self.travelling.intersection(_ALWAYS) if roots else ())}
            while pending:
                name = pending.pop()
                if name in seen:
                    continue
                seen.add(name)
                if len(self.travelling) == 1:
                    continue  # there is no other file to find
                from drivetrain.assets.module_facts import module_facts

                facts = module_facts(self._read(name))
                loads_any += [f"{name}, {facts.loads_any}"] if facts.loads_any else []
                unpickles += [f"{name}, {facts.unpickles}"] if facts.unpickles else []
                values += [f"{name}, {facts.values}"] if facts.values else []
                pending |= set(self._imported(name, facts.imports, place))
                pending |= {each for file in facts.files for each in self._files_called(file)}
                pending |= set(self._packages(name))
            said = (min(each, default="") for each in (loads_any, unpickles, values))
            self._reached[roots, place] = _Reach(frozenset(seen), *said)
        return self._reached[roots, place]

    def _imported(self, importer: str, imports: Iterable[Import], place: str) -> Iterator[str]:
        for level, module, names in imports:
            if level:
                above = importer.split("/")[:-level]
                if len(importer.split("/")) < level:
                    continue
                places: tuple[str, ...] = ("/".join(above),)
            else:
                places = ("", place)
            # `import a.b` runs a, too.
            parts: list[str] = module.split(".") if module else []
            found = [".".join(parts[: number + 1]) for number in range(len(parts))]
            found += [".".join([*parts, each]) for each in names if each != "*"]
            for each in found:
                yield from self._module(each, places)
            if level and not module:
                yield from {f"{places[0]}/__init__.py".lstrip("/")} & self.travelling
            if "*" in names:  # its __all__ may name modules
                for folder in places:
                    below = "/".join(filter(None, (folder, *parts))) + "/"
                    yield from (file for file in self.travelling if _is_child(file, below))

    def _packages(self, name: str) -> Iterator[str]:
        """The packages around a file, which Python runs before it."""
        folders = name.split("/")[:-1]
        for number in range(len(folders)):
            yield from {"/".join((*folders[: number + 1], "__init__.py"))} & self.travelling

    def _files_called(self, name: str) -> Iterator[str]:
        last = f"/{name.rpartition('/')[2]}"
        return (file for file in self.travelling if f"/{file}".endswith(last))

    def _read(self, name: str) -> bytes:
        if name not in self._content:
            assert self.source is not None
            self._content[name] = (self.source / name).read_bytes()
        return self._content[name]


def rooms_named(texts: Iterable[str]) -> frozenset[str]:
    """The rooms that texts name, those that all steps have, and what these need."""
    pending, found = {"components", "steps"}, set[str]()
    pending.update(*map(_named_rooms, texts))
    while pending:
        room = pending.pop()
        if room not in found:
            found.add(room)
            pending |= set(ROOMS[room]) if room in ROOMS else _rooms_of_component(room)
    return frozenset(found - {"components"})


def _named_rooms(text: str) -> set[str]:
    if "drivetrain" not in text:
        return set()
    found = set(_MENTIONED.findall(text))
    for components, names in _IMPORTED.findall(text):
        found |= {("components", name) if components else (name, "") for name in re.findall(r"\w+", names)}
    rooms = {room for room, _ in found if room in ROOMS and room != "components"}
    rooms |= {f"components/{name}" for room, name in found if room == "components" and _component(name).is_file()}
    # drivetrain.steps.programs starts the launcher, by its name.
    starts = "drivetrain.steps" in text and re.search(r"\bprograms\b", text)
    return rooms | {"training_scripts"} if starts else rooms


@cache
def _rooms_of_component(name: str) -> set[str]:
    return _named_rooms(_component(name.removeprefix("components/")).read_text(encoding="utf-8"))


def _component(name: str) -> Path:
    return Path(drivetrain.__file__).parent / "components" / f"{name}.py"


def _is_child(file: str, folder: str) -> bool:
    """True where it is a module or a package directly in a folder."""
    below = file.removeprefix(folder)
    return file.startswith(folder) and ("/" not in below or (below.count("/") == 1 and below.endswith("/__init__.py")))


def _given(step: JobStep) -> Iterator[tuple[str, Any]]:
    """The parameters of a step's program but for numbers, which name no file: by the name of the parameter, "" of a
    script's argument."""
    given = [*step.parameters.items(), *(("", each) for each in step.arguments)]
    if isinstance(step, TuningStep):
        for name, searched in step.search.ranges.items():
            given += ((name, each) for each in (searched.values if isinstance(searched, OneOf) else ()))
    return (each for each in given if not isinstance(each[1], int | float))
