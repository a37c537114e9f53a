"""Words for tasks of Kubeflow Pipelines as they are; that target alone takes them.

    prepared = task("prepare", image=PANDAS, command=["python3", "prepare.py"], inputs={"rows": rows},
                    outputs={"data": "Dataset", "share": "Float"})
    trained = task("train", image=PANDAS, command=["python3", "train.py"], inputs={"data": prepared["data"]})
    group("enough", [trained], when=cel("{share} > 0.5", share=prepared["share"]))

The keywords of a word are the rows of its table. A step holds a task in the platform's words, its component inside.
What a group takes from outside becomes an input of it, named as kfp's compiler does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from drivetrain.authoring.binding import dependencies
from drivetrain.base.errors import SpecError, did_you_mean, shown
from drivetrain.base.json_text import as_object, object_in
from drivetrain.native import merge
from drivetrain.native.table import COUNT, OBJECT, TEXT, TEXTS, MisfitError, Row, Spelling, Table, json_of, mapped
from drivetrain.native.table import fields as _fields
from drivetrain.native.table import named as _named
from drivetrain.spec.steps import KUBEFLOW_TASK, NativeStep
from drivetrain.spec.values import TYPE_OF_SCALAR, OutputRef, PropertyRef, Reference

Json = dict[str, Any]
FLOWS = {"parameters": "Parameter", "artifacts": "Artifact"}
CHANNEL = "pipelinechannel--"
PARAMETERS = {
    **{"String": "STRING", "Integer": "NUMBER_INTEGER", "Float": "NUMBER_DOUBLE", "Boolean": "BOOLEAN"},
    **{"List": "LIST", "Struct": "STRUCT", "Status": "TASK_FINAL_STATUS"},
}
SOURCES = {f"{where}{kind}" for where in ("componentInput", "taskOutput") for kind in FLOWS.values()} | {
    *("runtimeValue", "taskFinalStatus", "parameterExpressionSelector")
}
ITERATORS = ("parameterIterator", "artifactIterator")
FIELD = re.compile(r'parseJson\(string_value\)\["([^"\\]*)"\]')
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def definition(word: Any) -> Json:
    """The IR's type of "Float", "Dataset", or ["Dataset"], a list of artifacts; its own JSON as it is.

    Raises:
        MisfitError: something else.
    """
    if isinstance(word, Mapping):
        return dict(cast("Json", word))
    if isinstance(word, list) and len(cast("list[Any]", word)) == 1 and "artifactType" in (one := definition(word[0])):
        return {**one, "isArtifactList": True}
    if isinstance(word, str) and word in PARAMETERS:
        return {"parameterType": PARAMETERS[word]}
    if isinstance(word, str) and word.isidentifier():
        return {"artifactType": {"schemaTitle": f"system.{word}", "schemaVersion": "0.0.1"}}
    raise MisfitError


def word_of(type: Json) -> Any:
    """The word for a type of the IR; its JSON if there is none."""
    title = str(object_in(type, "artifactType").get("schemaTitle")).removeprefix("system.")
    words = (*PARAMETERS, *((title, [title]) if title.isidentifier() else ()))
    return next((word for word in words if definition(word) == type), type)


def flow_of(type: Json) -> str:
    """The flow of what has a type of the IR."""
    return "artifacts" if "artifactType" in type else "parameters"


def is_source(value: Any) -> bool:
    """Return True for what a task takes in the words of the IR."""
    return bool(as_object(value)) and as_object(value).keys() <= SOURCES


def _source(value: Any) -> Any:
    found = json_of(value)
    return found if isinstance(found, Reference) or is_source(found) else {"runtimeValue": {"constant": found}}


def _by_flow(given: Any) -> Json:
    found: Json = {}
    for name, type in mapped(definition)(given).items():
        found.setdefault(flow_of(type), {})[name] = type
    return found


def _of_both_flows(json: Any) -> Json:
    both = [(name, word_of(type)) for flow in FLOWS for name, type in object_in(json, flow).items()]
    if len({*dict(both)}) != len(both) or not json.keys() <= FLOWS.keys():
        raise MisfitError
    return dict(both)


def _flag(on: Any, off: Any = None) -> Spelling:
    def write(given: Any) -> Any:
        if given is True or (given is False and off is not None):
            return on if given else off
        raise MisfitError

    def read(json: Any) -> bool:
        if json in (on, off):
            return json == on
        raise MisfitError

    return Spelling("True or False", write, read)


_TYPES = Spelling("types by name, such as {'a': 'Float', 'b': 'Dataset'}", mapped(definition), mapped(word_of))
_OUTPUTS = Spelling(_TYPES.allowed, _by_flow, _of_both_flows)
_INPUTS = Spelling("values and outputs of tasks by name", mapped(_source), mapped(lambda source: source))
_VALUES = Spelling("values by name", mapped(json_of), mapped(json_of))
_CACHE = _flag({"enableCache": True}, {})
_GIVEN = (Row("inputs", "inputs", _INPUTS), Row("defaults", "defaults", _VALUES), Row("types", "types", _TYPES))
_ORDER = (
    Row("when", "triggerPolicy.condition", TEXT),
    Row("always", "triggerPolicy.strategy", _flag("ALL_UPSTREAM_TASKS_COMPLETED")),
    Row("retry", "retryPolicy", OBJECT),
)
TASK = Table(
    "task",
    (
        Row("image", "container.image", TEXT),
        Row("command", "container.command", TEXTS),
        Row("arguments", "container.args", TEXTS),
        Row("importer", "importer", OBJECT),
        *_GIVEN,
        Row("outputs", "outputs", _OUTPUTS),
        Row("environment", "container.env", _named("name", _fields("value"))),
        Row("cpu", "container.resources.resourceCpuRequest", TEXT),
        Row("cpu_limit", "container.resources.resourceCpuLimit", TEXT),
        Row("memory", "container.resources.resourceMemoryRequest", TEXT),
        Row("memory_limit", "container.resources.resourceMemoryLimit", TEXT),
        Row("accelerator", "container.resources.accelerator", _fields("resourceType", "resourceCount")),
        *_ORDER,
        Row("cache", "cachingOptions", _CACHE, True),
        Row("platform", "platform", OBJECT),
    ),
)
GROUP = Table(
    "group",
    (
        *_GIVEN,
        *_ORDER,
        Row("max_concurrency", "iteratorPolicy.parallelismLimit", COUNT),
        Row("cache", "cachingOptions", _CACHE),
    ),
)


class Task(NativeStep):
    """A task as the platform has it, whose outputs other steps take: prepared["data"]."""

    def __getitem__(self, output: str) -> PropertyRef:  # type: ignore[override]
        """A parameter or an artifact that the task gives.

        Raises:
            SpecError: it gives nothing of that name.
        """
        outputs = outputs_of(self.fields)
        flow = next((flow for flow, found in outputs.items() if output in found), None)
        if flow is None:
            names = [name for found in outputs.values() for name in found]
            raise SpecError(f"Step {self.name!r} has no output {output!r}. {did_you_mean(str(output), names)}")
        return self.property(f"{flow}.{output}")

    @property
    def parts(self) -> tuple[str, ...]:
        """The tasks of a group, those of groups in it included."""
        return tuple(_names(self.fields))

    def status(self) -> Json:
        """How the task ended, for an input of a task that runs `always`."""
        return {"taskFinalStatus": {"producerTask": self.name}}


def _names(task: Mapping[str, Any]) -> Iterator[str]:
    for name, inner in object_in(object_in(task, "dag"), "tasks").items():
        yield name
        yield from _names(inner)


def outputs_of(task: Mapping[str, Any]) -> dict[str, Json]:
    """Flow -> the types of a task's outputs; of a group those of the tasks in it, of a loop lists of them."""
    found: dict[str, Json] = {flow: {} for flow in FLOWS}
    dag = object_in(task, "dag")
    for flow, outputs in object_in(dag, "outputs").items():
        for name, source in outputs.items():
            first = selectors(source)[0]
            of = outputs_of(object_in(dag["tasks"], str(first.get("producerSubtask"))))[flow]
            type: Json = of.get(str(first.get(f"output{FLOWS[flow]}Key")), {})
            if task.keys() & {*ITERATORS}:
                type = {"parameterType": "LIST"} if flow == "parameters" else {**type, "isArtifactList": True}
            found[flow][name] = type
    return {flow: {**found[flow], **object_in(object_in(task, "outputs"), flow)} for flow in FLOWS}


def selectors(source: Json) -> list[Json]:
    """The outputs of inner tasks from which a group takes one."""
    several = source.get("artifactSelectors") or object_in(source, "valueFromOneof").get("parameterSelectors")
    return several or [object_in(source, "valueFromParameter")]


def inputs_of(task: Mapping[str, Any], type_of: Callable[[Any], Json]) -> dict[str, Json]:
    """Input -> its definition: as declared, or as what it is given has it.

    Args:
        type_of: gives the type of a source that is no constant; an empty one if it is not known.
    """
    inputs, types, defaults = (object_in(task, name) for name in ("inputs", "types", "defaults"))
    found: dict[str, Json] = {}
    for name in sorted({*inputs, *types, *defaults}):
        default, source = defaults.get(name), inputs.get(name)
        if name.startswith(CHANNEL) and "dag" not in task:
            continue  # what placeholders in other inputs stand for
        if (constant := as_object(source).get("runtimeValue", {}).get("constant", default)) is not None:
            inferred = type_of_value(constant)
        else:
            inferred = {} if source is None else type_of(source)
        optional = {} if name not in defaults else {"isOptional": True}
        found[name] = {
            **types.get(name, inferred),
            **optional,
            **({} if default is None else {"defaultValue": default}),
        }
    return {name: type for name, type in found.items() if type}


def type_of_value(value: Any) -> Json:
    """The type of a constant."""
    return definition({**TYPE_OF_SCALAR, list: "List", dict: "Struct"}[type(value)])


def given(name: str, field: str = "", *, artifact: bool = False) -> Json:
    """In the steps of a group: an input of its own by name, such as the item of its loop; or a field of it."""
    selector = {"parameterExpressionSelector": f"parseJson(string_value)[{json.dumps(field)}]"} if field else {}
    return {f"componentInput{'Artifact' if artifact else 'Parameter'}": name, **selector}


def kind_of(source: Any) -> str:
    """Parameter or Artifact: what a source gives."""
    if isinstance(source, PropertyRef):
        return FLOWS[source.path.partition(".")[0]]
    is_artifact = isinstance(source, OutputRef) or any(key.endswith("Artifact") for key in as_object(source))
    return "Artifact" if is_artifact else "Parameter"


def channel_of(source: Any) -> str:
    """The name of the input by which a group takes a source from outside, as kfp's compiler has it; empty for one that
    has none."""
    if isinstance(source, PropertyRef):
        return f"{CHANNEL}{source.step}-{source.path.partition('.')[2]}"
    if isinstance(source, Reference):
        parts = [getattr(source, name) for name in ("step", "output", "name") if hasattr(source, name)]
        return CHANNEL + "-".join(parts)
    kind, selector = kind_of(source), source.get("parameterExpressionSelector")
    if output := as_object(source.get(f"taskOutput{kind}")):
        return "" if selector else f"{CHANNEL}{output.get('producerTask')}-{output.get(f'output{kind}Key')}"
    name, field = source.get(f"componentInput{kind}"), FIELD.fullmatch(selector or "")
    if name is None or (selector and not field):
        return ""
    return f"{CHANNEL}{name.removeprefix(CHANNEL)}" + (f"-subvar-{field[1]}" if field else "")


def cel(text: str, /, **values: Any) -> tuple[str, Json]:
    """A condition in the platform's language, for `when`: cel("int({rows}) > 10", rows=rows)."""
    return text, values


def task(name: str, **keywords: Any) -> Task:
    """A container as a task.

    Args:
        inputs: name -> a constant, a parameter of the pipeline, an output of a task, or given(...).
        defaults: values of inputs that are not given; None for an optional one without.
        types: of inputs, where what they are given does not say it: "Float", "Dataset", ["Model"].
        outputs: name -> type.
        importer: in place of a container, an importer as the platform has it.
        always: True for a task that runs however those before it ended.
        platform: what is asked of Kubernetes for its pod, as the platform has it.
        after: steps that end before it begins.
        other: fields that have no keyword, as JSON.

    Raises:
        SpecError: an unknown keyword, or a value that one does not take.
    """
    return _built(TASK, name, keywords, {})


def group(
    name: str,
    steps: Sequence[Task],
    *,
    each: Any = None,
    item: str = "",
    outputs: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Task:
    """Tasks that run together: under a condition (`when`), once an item (`each`), before an exit task, or as a part.

    Args:
        each: a list, or a value that holds one; given(item) is the item. It is a text, unless `types` or the list says
            otherwise.
        outputs: name -> an output of a step of the group, or a list of outputs from which one is taken.

    Raises:
        SpecError: something else than tasks in it, or two values from outside with one name.
    """
    inner = {step.name: step for step in cast("Sequence[Any]", steps) if isinstance(step, Task)}
    if len(inner) != len(steps):
        raise SpecError(f"group({shown(name)}): {shown(steps)}. Give tasks with names of their own.")
    inputs, types = (dict(keywords.pop(key, None) or {}) for key in ("inputs", "types"))
    own: set[str] = {*inputs, *(keywords.get("defaults") or {}), item}

    def bring(value: Any) -> str:
        source = json_of(value)
        key = channel_of(source)
        if inputs.setdefault(key, source) != source:
            raise SpecError(f"group({shown(name)}): two values have the name {key!r} in it. Rename a task.")
        return key

    def inside(source: Any) -> Any:
        kind = kind_of(source)
        if isinstance(source, PropertyRef) and source.step in inner:
            key = source.path.partition(".")[2]
            return {f"taskOutput{kind}": {f"output{kind}Key": key, "producerTask": source.step}}
        is_outer = isinstance(source, Reference) or source.get(f"componentInput{kind}", item) not in own
        return {f"componentInput{kind}": bring(source)} if is_outer and channel_of(source) else source

    built: Json = {"dag": {"tasks": {}}}
    for step in inner.values():
        sources = object_in(step.fields, "inputs")
        needed = {each.step for each in sources.values() if isinstance(each, PropertyRef)} & inner.keys()
        built["dag"]["tasks"][step.name] = {
            **step.fields,
            "inputs": {key: inside(source) for key, source in sources.items()},
            "dependentTasks": sorted(needed | {edge.step for edge in step.depends_on}),
            "taskInfo": {"name": step.display_name or step.name},
        }
    for key, value in (outputs or {}).items():
        found = cast("list[PropertyRef]", value if isinstance(value, list) else [value])
        kind, parts = kind_of(found[0]), [(each.step, each.path.partition(".")[2]) for each in found]
        chosen = [{f"output{kind}Key": of, "producerSubtask": step} for step, of in parts]
        one = (
            {"valueFromOneof": {"parameterSelectors": chosen}} if value is found else {"valueFromParameter": chosen[0]}
        )
        given = {"artifactSelectors": chosen} if kind == "Artifact" else one
        built["dag"].setdefault("outputs", {}).setdefault(f"{kind.lower()}s", {})[key] = given
    if each is not None:
        kind = "Parameter" if isinstance(each, list) else kind_of(json_of(each))
        usual = type_of_value(each[0]) if isinstance(each, list) and each else definition("String")
        types.setdefault(item, usual)
        items = {"raw": json.dumps(each)} if isinstance(each, list) else {f"input{kind}": bring(each)}
        built[f"{kind.lower()}Iterator"] = {"itemInput": item, "items": items}
    if isinstance(keywords.get("when"), tuple):
        text, values = cast("tuple[str, Json]", keywords["when"])
        for word, value in values.items():
            text = text.replace(f"{{{word}}}", f"inputs.parameter_values['{bring(value)}']")
        keywords["when"] = text
    return _built(GROUP, name, {**keywords, "inputs": inputs or None, "types": types or None}, built)


def _built(table: Table, name: Any, keywords: Json, fields: Json) -> Task:
    where = f"{table.word}({shown(name)})"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SpecError(f"{where}: no name of a task. Use lower case letters, digits and '-' between them.")
    about = {key: keywords.pop(key) for key in ("display_name", "description") if key in keywords}
    after, other = keywords.pop("after", ()), keywords.pop("other", None)
    built = {**table.write(keywords, where), **fields}
    if other is not None:
        merge(built, other, f"{where}: other")
    return Task(name=name, type=KUBEFLOW_TASK, fields=built, depends_on=dependencies(after), **about)
