"""The contract of a step: how a typed function is declared, and how it becomes a program in a container. Here is what a
component declares: folders, parameters, what comes back, and what else the platform must know.

declaration.py makes it of a function. Folders are `pathlib.Path` to the function and to the type checker; `Input`,
`Output` and `Checkpoints` only say which way the data flows. The help of its parameters is what its docstring says of
them (`argument_help`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, cast

from drivetrain.base.errors import SpecError, shown

if TYPE_CHECKING:
    from drivetrain.base.bounds import Bounds

# Every step imports this file: neither dataclasses nor inspect, which take longer to import than all else here.

_LINE_BREAKS = "\n\r\x85\u2028\u2029"
_JSON = ".json"

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

Job = Literal["processing", "training"]
Scalar = str | int | float | bool


class Folder(NamedTuple):
    """Marks a Path parameter as a folder that the platform fills (`input`) or collects (`output`, `checkpoints`).

    With `value` the folder holds a Python value, and the function takes or returns the value (values.py). With `shared`
    the function is given the place of all trainings, and tells its own apart from the others (trainings.py).
    """

    flow: Literal["input", "output", "checkpoints"]
    value: bool = False
    shared: bool = False


Input = Annotated[Path, Folder("input")]
Output = Annotated[Path, Folder("output")]
Checkpoints = Annotated[Path, Folder("checkpoints")]
CheckpointsOfAll = Annotated[Path, Folder("checkpoints", shared=True)]
Value = Annotated[V, Folder("input", value=True)]

# The output in which a returned Value travels.
RETURNED = "returned"

# A processing job's numbers travel in a folder of their own, so that a property file can name it.
METRICS_OUTPUT = "metrics"
METRICS_FILE = "metrics.json"
# SageMaker gives a training job exactly these two; each arrives in the bucket as a tar.gz.
TRAINING_OUTPUTS = ("model", "output")
CHECKPOINTS = "checkpoints"
# The channel that brings the program itself.
CODE_CHANNEL = "code"
# The pipeline parameter of a start with --fresh, its default, and the variable that tells a step its value.
FRESH_PARAMETER, NOT_FRESH, FRESH_VARIABLE = "Fresh", "no", "DRIVETRAIN_FRESH"
# How a container starts the step, followed by the start file's SHA-256, its path and its arguments. What runs first
# stands in the definition itself, and reads the start file once: what it hashed is what it runs. (An entry point's word
# may have 256 characters. The start file needs the standard library alone; without site-packages Python starts it a
# third faster.)
START_COMMAND = (
    *("python3", "-I", "-S", "-c"),
    "import sys,hashlib as h;s,p=sys.argv[1:3];b=open(p,'rb').read();"
    "h.sha256(b).hexdigest()==s or sys.exit('error: '+p+' is not the file that was deployed');"
    "sys.argv[:3]=[p];exec(compile(b,p,'exec'),{'__name__':'__main__','__file__':p})",
)

# The same for a node of a TrainJob, to which the platform brings nothing: it fetches the code itself. Process 1 of
# a container gets no SIGTERM unless it has a handler.
START_KUBEFLOW_NODE = """\
import hashlib, json, os, signal, sys, tempfile
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
start, code, given = sys.argv[1:4]
place = json.loads(given)["inputs"]["artifacts"]["code"]["artifacts"][0]["uri"].rstrip("/") + "/"
try:
    import boto3, botocore.config
    bucket, _, prefix = place.partition("://")[2].partition("/")
    folder = tempfile.mkdtemp(prefix="drivetrain-fetched-")
    retries = botocore.config.Config(retries={"mode": "standard", "total_max_attempts": 8})
    client = boto3.client("s3", region_name=os.environ.get("AWS_REGION") or None, config=retries)
    for each in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []):
        client.download_file(bucket, each["Key"], folder + "/" + each["Key"].rpartition("/")[2])
    path = folder + "/start.py"
    content = open(path, "rb").read()
    if hashlib.sha256(content).hexdigest() != start:
        raise ValueError("start.py is not the file that was deployed")
except Exception as error:
    told = "error: cannot fetch the code from " + place + ": " + type(error).__name__ + ": " + str(error)
    try:
        open(os.environ.get("DRIVETRAIN_TERMINATION_MESSAGE", "/dev/termination-log"), "w").write(told)
    finally:
        sys.exit(told)
sys.argv[:] = [path, "--code", code, "kubeflow", "--node", given]
exec(compile(content, path, "exec"), {"__name__": "__main__", "__file__": path})
"""


class Since(NamedTuple):
    """Marks a parameter that came to a component later: without it the program did what it does with `before`.

        label_smoothing: Annotated[float, Since(before=0.0)] = 0.0

    With that value, checkpoints stay in their folder and a training counts as the same training.
    """

    before: Scalar


class DeclarationError(SpecError, TypeError):
    """A function cannot be a component: the message names the function, the parameter and what is allowed."""


class ComponentParameter(NamedTuple):
    """One plain parameter of a component.

    `type` is str, int, float or bool; `choices` is empty when every value of the type is allowed, and `bounds` None
    when every number is; `required` says whether the author must give it; `optional` whether None is a value (it is
    passed on by leaving the flag out); `since` what its absence meant before it was declared.
    """

    name: str
    type: type[Scalar]
    required: bool
    default: Scalar | None = None
    choices: tuple[Scalar, ...] = ()
    optional: bool = False
    help: str = ""
    bounds: Bounds | None = None
    since: Since | None = None

    @property
    def flag(self) -> str:
        """The command-line spelling: `max_digits` is given as `--max-digits`."""
        return "--" + self.name.replace("_", "-")

    def described(self) -> str:
        """The values that are allowed, in words; of the whole type where nothing bounds them."""
        if self.choices:
            return ", ".join(map(str, self.choices))
        return self.bounds.described(self.type) if self.bounds else self.type.__name__

    def allows(self, value: Scalar) -> bool:
        """Return True if a value of its type is one of its choices, or within its bounds."""
        if self.choices:
            return value in self.choices
        return self.bounds is None or isinstance(value, str) or self.bounds.hold(value)


class ComponentFolder(NamedTuple):
    """One folder of a component; an optional input may be left unconnected and then arrives as None.

    `value` says that the function takes or returns the Python value in the folder, not its path; `shared` that it takes
    the place of all trainings.
    """

    name: str
    optional: bool = False
    help: str = ""
    value: bool = False
    shared: bool = False

    @property
    def required(self) -> bool:
        return not self.optional

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


class Declaration(NamedTuple, Generic[P, R]):
    """The declaration of a typed function. Calling it calls the function.

    `metrics` holds the names of what comes back, is empty when nothing does, and is None when they are only known at
    run time (the function returns a dict); `texts` are those among them that are texts, the others are numbers.
    `cached` says whether an earlier result may stand in for a run: not where the program asks something that is not
    among its inputs. `needs` lists distributions the program imports. `logs` maps the
    name of a training metric to the regular expression that finds it in the job's log, as SageMaker's
    MetricDefinitions do. `resumable` names the parameters of a training job that a resumed run may change (epochs may
    grow): with them it goes on from its checkpoints. In any other run their values make it another training.
    """

    function: Callable[P, R]
    name: str
    job: Job
    inputs: Mapping[str, ComponentFolder]
    outputs: Mapping[str, ComponentFolder]
    checkpoints: ComponentFolder | None
    parameters: Mapping[str, ComponentParameter]
    metrics: tuple[str, ...] | None
    needs: tuple[str, ...]
    resumable: tuple[str, ...]
    logs: Mapping[str, str]
    summary: str
    texts: tuple[str, ...] = ()
    cached: bool = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if any(type(one).__module__.startswith("drivetrain.spec") for one in (*args, *kwargs.values())):
            raise SpecError(
                f"{self.name}(...) calls the function now, with values that exist only when the pipeline runs. Make a "
                f"step of it: step({self.name}, {next(iter((*kwargs, *self.inputs)), 'rows')}=...)."
            )
        if unknown := kwargs.keys() - self._arguments:  # a function with **settings would take any name
            from drivetrain.base.errors import did_you_mean

            name = min(unknown)
            raise TypeError(f"{self.name}() has no argument {name!r}. {did_you_mean(name, self._arguments)}")
        folders = [each.name for each in (*self.inputs.values(), *self.outputs.values()) if not each.optional]
        missing = [name for name in folders if name not in kwargs and name != RETURNED]
        if len(missing) > len(args):
            raise TypeError(
                f"{self.name}() needs the folder {missing[-1]!r}. In a pipeline it is a step, which the platform gives "
                f"its folders: step({self.name}, ...)."
            )
        return self.function(*args, **kwargs)

    @property
    def _arguments(self) -> set[str]:
        folders = {self.checkpoints.name} if self.checkpoints else set[str]()
        return folders.union(self.inputs, self.outputs, self.parameters)

    @property
    def target(self) -> str:
        """`module:function`, the name under which the program is found in the container."""
        module = self.function.__module__
        if module == "__main__":  # in the container the file is imported by its own name, as `python -m` has it
            spec = getattr(self.function, "__globals__", {}).get("__spec__")
            module = self.file.stem if spec is None else spec.name
        return f"{module}:{self.function.__name__}"

    @property
    def file(self) -> Path:
        """The source file, from which the folder that travels with the user's code is found."""
        return Path(cast(FunctionType, self.function).__code__.co_filename).resolve()


def fresh_token(given: Mapping[str, Any], name: str = FRESH_VARIABLE) -> str:
    """The token of a start with --fresh; empty in a run that may use what earlier runs left.

    Args:
        given: the variables of a step's program; or with FRESH_PARAMETER as the name the parameters of a run.
    """
    value = str(given.get(name, ""))
    return "" if value == NOT_FRESH else value


def listed(where: str, name: str, given: Any, example: str) -> tuple[Any, ...]:
    """The items of a list that an author gives.

    Raises:
        SpecError: it is a text, whose letters would be the items, or no list at all.
    """
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise SpecError(f"{where}: {name} is {shown(given)}. Give a list, such as {name}=[{example}].")
    return tuple(given)


def listed_texts(where: str, name: str, given: Any, example: str) -> tuple[str, ...]:
    """The same of texts.

    Raises:
        SpecError: it is no list, or one of its items is no text.
    """
    items = listed(where, name, given, example)
    for item in items:
        if not isinstance(item, str):
            raise SpecError(f"{where}: {name} holds {shown(item)}, which is no text. Write {name}=[{example}].")
    return items


def argument_help(doc: str) -> dict[str, str]:
    """`name: text` entries of the docstring's section Args or Attributes, folded to one line each."""
    if "Args:" not in doc and "Attributes:" not in doc:
        return {}
    section = re.search(
        r"^\s*(?:Args|Attributes):\s*\n(.*?)(?:^\s*(?:Returns|Raises|Yields):|\Z)", doc, re.MULTILINE | re.DOTALL
    )
    if section is None:
        return {}
    found: dict[str, str] = {}
    name, indent = "", None
    for line in section.group(1).splitlines():
        entry = re.match(r"^(\s+)(\w+):\s+(.*)$", line)
        if entry and (indent is None or len(entry.group(1)) <= indent):
            indent, name = len(entry.group(1)), entry.group(2)
            found[name] = entry.group(3).strip()
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def spread(flag: str, text: str, most: int) -> list[str]:
    """The arguments that pass a text: the flag and the text, where it fits into `most` characters of one line.

    One argument of SageMaker takes so many characters, and no line break. So a longer text is passed in several,
    `--plan A --plan.2 B` is `--plan AB`, and one with line breaks as a JSON text, which `--plan.json` at its beginning
    says.
    """
    first = flag
    if any(mark in text for mark in _LINE_BREAKS):
        import json  # which a step that has no such text does not wait for

        first, text = flag + _JSON, json.dumps(text)
    pieces = [text[start : start + most] for start in range(0, len(text), most)] or [text]
    words = [first, pieces[0]]
    for number, piece in enumerate(pieces[1:], start=2):
        words += [f"{flag}.{number}", piece]
    return words


def gather(words: Sequence[Any]) -> list[Any]:
    """The arguments with every text that `spread` made in one piece again; all others as they are."""
    found: list[Any] = []
    index = 0
    while index < len(words):
        flag, index = words[index], index + 1
        if not isinstance(flag, str) or not flag.startswith("--") or "=" in flag or index == len(words):
            found.append(flag)
            continue
        text, index = words[index], index + 1
        name, count = flag.removesuffix(_JSON), 2
        while index + 1 < len(words) and words[index] == f"{name}.{count}":
            text, count, index = text + words[index + 1], count + 1, index + 2
        found += [flag, text] if name == flag else [name, _decoded(text)]
    return found


def _decoded(text: str) -> str:
    import json

    try:
        found = json.loads(text)
    except ValueError:  # typed by hand
        return text
    return found if isinstance(found, str) else text
