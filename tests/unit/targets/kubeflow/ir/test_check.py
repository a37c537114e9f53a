"""What kfp's own compiler writes is accepted, and what is planted into it is found at its place."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.authoring import plain_yaml
from drivetrain.base.errors import UserError
from drivetrain.targets.kubeflow.ir.check import Documents, looks_like_ir, problems, read
from drivetrain.targets.kubeflow.ir.fields import FILE, Field, enums, messages

Json = dict[str, Any]
Plant = Callable[[Json, Json], object]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """kfp takes a second to import, and a tenth of one to compile them all."""
    from tests.fixtures.kfp_forms import compiled

    return compiled(tmp_path_factory.mktemp("forms"))


@pytest.fixture(scope="module")
def forms(texts: Mapping[str, str]) -> Mapping[str, Documents]:
    return {name: read(text.encode(), name) for name, text in texts.items()}


def copy_of(documents: Documents) -> tuple[Json, Json]:
    return copy.deepcopy(documents.spec), copy.deepcopy(documents.platform)


def test_the_forms_of_kfps_own_compiler_are_accepted(texts: Mapping[str, str], forms: Mapping[str, Documents]) -> None:
    assert len(forms) >= 30
    for name, documents in forms.items():
        assert looks_like_ir(texts[name].encode()), name
        assert list(map(str, problems(documents))) == [], name


def task(spec: Json, name: str, component: str = "") -> Json:
    return (spec["components"][component] if component else spec["root"])["dag"]["tasks"][name]


def parameter(spec: Json, name: str, of: str, component: str = "") -> Json:
    return task(spec, name, component)["inputs"]["parameters"][of]


def container(spec: Json, name: str) -> Json:
    return spec["deploymentSpec"]["executors"][name]["container"]


def kubernetes(platform: Json, name: str) -> Json:
    return platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"][name]


# Form, what is done to it, where the problem is found, and what is said of it.
PLANTED: dict[str, tuple[str, Plant, str, str]] = {
    "unknown field": (
        "chain",
        lambda spec, _: task(spec, "train").update(dependantTasks=["prepare"]),
        "root.dag.tasks['train'].dependantTasks",
        "Did you mean 'dependentTasks'?",
    ),
    "unknown field of the document": (
        "chain",
        lambda spec, _: spec.update(pipelineSpec={}),
        "pipelineSpec",
        "there is no such field here",
    ),
    "wrong type": (
        "chain",
        lambda spec, _: task(spec, "train").update(dependentTasks="prepare"),
        "root.dag.tasks['train'].dependentTasks",
        "is a text, not a list.",
    ),
    "wrong type deep inside": (
        "retries-and-caching",
        lambda spec, _: task(spec, "show")["cachingOptions"].update(enableCache="yes"),
        "root.dag.tasks['show'].cachingOptions.enableCache",
        "is a text, not true or false.",
    ),
    "no number": (
        "retries-and-caching",
        lambda spec, _: task(spec, "show")["retryPolicy"].update(maxRetryCount=True),
        "root.dag.tasks['show'].retryPolicy.maxRetryCount",
        "is true or false, not a whole number.",
    ),
    "unknown word": (
        "exit-handler",
        lambda spec, _: task(spec, "notify")["triggerPolicy"].update(strategy="ALWAYS"),
        "root.dag.tasks['notify'].triggerPolicy.strategy",
        "Allowed: ALL_UPSTREAM_TASKS_COMPLETED",
    ),
    "two of one choice": (
        "chain",
        lambda spec, _: parameter(spec, "prepare", "rows").update(runtimeValue={"constant": 1}),
        "root.dag.tasks['prepare'].inputs.parameters['rows'].runtimeValue",
        "is given beside 'componentInputParameter'",
    ),
    "missing component": (
        "chain",
        lambda spec, _: task(spec, "train").update(componentRef={"name": "comp-trian"}),
        "root.dag.tasks['train'].componentRef",
        "Did you mean 'comp-train'?",
    ),
    "missing executor": (
        "chain",
        lambda spec, _: spec["components"]["comp-train"].update(executorLabel="exec-tran"),
        "components['comp-train'].executorLabel",
        "Did you mean 'exec-train'?",
    ),
    "missing task": (
        "chain",
        lambda spec, _: task(spec, "train")["inputs"]["artifacts"]["data"]["taskOutputArtifact"].update(
            producerTask="prepared"
        ),
        "root.dag.tasks['train'].inputs.artifacts['data'].taskOutputArtifact.producerTask",
        "there is no task 'prepared' in this DAG. Did you mean 'prepare'?",
    ),
    "missing output": (
        "chain",
        lambda spec, _: task(spec, "train")["inputs"]["artifacts"]["data"]["taskOutputArtifact"].update(
            outputArtifactKey="dat"
        ),
        "root.dag.tasks['train'].inputs.artifacts['data'].taskOutputArtifact.outputArtifactKey",
        "task 'prepare' gives no artifact 'dat'. Did you mean 'data'?",
    ),
    "missing input of the DAG": (
        "chain",
        lambda spec, _: parameter(spec, "train", "rate").update(componentInputParameter="rat"),
        "root.dag.tasks['train'].inputs.parameters['rate'].componentInputParameter",
        "the pipeline takes no 'rat'. Did you mean 'rate'?",
    ),
    "an input that the component does not take": (
        "chain",
        lambda spec, _: task(spec, "train")["inputs"]["parameters"].update(rats={"runtimeValue": {"constant": 1}}),
        "root.dag.tasks['train'].inputs.parameters['rats']",
        "component 'comp-train' takes no 'rats'. Did you mean 'rate'?",
    ),
    "parameter of another type": (
        "chain",
        lambda spec, _: (
            parameter(spec, "train", "rate").update(componentInputParameter="word")
            or spec["root"]["inputDefinitions"]["parameters"].update(word={"parameterType": "STRING"})
        ),
        "root.dag.tasks['train'].inputs.parameters['rate']",
        "is STRING, and NUMBER_DOUBLE is wanted.",
    ),
    "constant of another type": (
        "one-task",
        lambda spec, _: parameter(spec, "show", "text")["runtimeValue"].update(constant=5),
        "root.dag.tasks['show'].inputs.parameters['text'].runtimeValue.constant",
        "is no STRING.",
    ),
    "default of another type": (
        "chain",
        lambda spec, _: spec["root"]["inputDefinitions"]["parameters"]["rows"].update(defaultValue=1.5),
        "root.inputDefinitions.parameters['rows'].defaultValue",
        "is no NUMBER_INTEGER.",
    ),
    "artifact of another type": (
        "containers",
        lambda spec, _: spec["components"]["comp-read"]["inputDefinitions"]["artifacts"]["data"]["artifactType"].update(
            schemaTitle="system.Model"
        ),
        "root.dag.tasks['read'].inputs.artifacts['data']",
        "is system.Dataset, and system.Model is wanted.",
    ),
    "one artifact for a list": (
        "collected-artifacts",
        lambda spec, _: spec["components"]["comp-for-loop-2"]["outputDefinitions"]["artifacts"][
            "pipelinechannel--train-model"
        ].update(isArtifactList=False),
        "root.dag.tasks['compare'].inputs.artifacts['models']",
        "is system.Model, and a list of system.Model is wanted.",
    ),
    "missing required input": (
        "chain",
        lambda spec, _: task(spec, "train")["inputs"].pop("artifacts"),
        "root.dag.tasks['train'].inputs.artifacts",
        "component 'comp-train' wants 'data', which is not given.",
    ),
    "cycle": (
        "order-without-data",
        lambda spec, _: task(spec, "show").update(dependentTasks=["show-2"]),
        "root.dag.tasks['show']",
        "waits for itself: show -> show-2 -> show.",
    ),
    "component that runs itself": (
        "conditions-in-conditions",
        lambda spec, _: task(spec, "condition-3", "comp-condition-2").update(componentRef={"name": "comp-condition-2"}),
        "components['comp-condition-2']",
        "runs itself: comp-condition-2 -> comp-condition-2.",
    ),
    "missing dependency": (
        "chain",
        lambda spec, _: task(spec, "train").pop("dependentTasks"),
        "root.dag.tasks['train'].dependentTasks",
        "lacks 'prepare', whose output the task takes.",
    ),
    "dependency on no task": (
        "chain",
        lambda spec, _: task(spec, "train")["dependentTasks"].append("nobody"),
        "root.dag.tasks['train'].dependentTasks[1]",
        "there is no task 'nobody' in this DAG.",
    ),
    "condition on what the task does not take": (
        "condition-on-parameter",
        lambda spec, _: task(spec, "condition-1")["triggerPolicy"].update(
            condition="inputs.parameter_values['kind'] == 'a'"
        ),
        "root.dag.tasks['condition-1'].triggerPolicy.condition",
        "the task takes no 'kind'. Did you mean 'pipelinechannel--kind'? Allowed: pipelinechannel--kind.",
    ),
    "condition that is no CEL": (
        "condition-on-parameter",
        lambda spec, _: task(spec, "condition-1")["triggerPolicy"].update(
            condition="inputs.parameter_values['pipelinechannel--kind'] = 'a'"
        ),
        "root.dag.tasks['condition-1'].triggerPolicy.condition",
        "column 50: \"= 'a'\" is no CEL.",
    ),
    "condition that compares a text with a number": (
        "condition-on-parameter",
        lambda spec, _: task(spec, "condition-1")["triggerPolicy"].update(
            condition="inputs.parameter_values['pipelinechannel--kind'] == 1.0"
        ),
        "root.dag.tasks['condition-1'].triggerPolicy.condition",
        "'==' compares a text with a number, which never holds.",
    ),
    "iterator over what is no list": (
        "loop-over-parameter",
        lambda spec, _: (
            spec["root"]["inputDefinitions"]["parameters"].update(words={"parameterType": "STRING"})
            or spec["components"]["comp-for-loop-1"]["inputDefinitions"]["parameters"]["pipelinechannel--words"].update(
                parameterType="STRING"
            )
        ),
        "root.dag.tasks['for-loop-1'].parameterIterator.items.inputParameter",
        "'pipelinechannel--words' is STRING, no list.",
    ),
    "iterator over what is no JSON list": (
        "loop-over-literals",
        lambda spec, _: task(spec, "for-loop-2")["parameterIterator"]["items"].update(raw='{"a": 1}'),
        "root.dag.tasks['for-loop-2'].parameterIterator.items.raw",
        "is no JSON list.",
    ),
    "iterator over an input that is not given": (
        "loop-over-parameter",
        lambda spec, _: task(spec, "for-loop-1")["parameterIterator"]["items"].update(inputParameter="words"),
        "root.dag.tasks['for-loop-1'].parameterIterator.items.inputParameter",
        "the task takes no 'words'.",
    ),
    "item that the body does not take": (
        "loop-over-literals",
        lambda spec, _: task(spec, "for-loop-2")["parameterIterator"].update(itemInput="item"),
        "root.dag.tasks['for-loop-2'].parameterIterator.itemInput",
        "component 'comp-for-loop-2' takes no 'item'.",
    ),
    "limit without an iterator": (
        "one-task",
        lambda spec, _: task(spec, "show").update(iteratorPolicy={"parallelismLimit": 2}),
        "root.dag.tasks['show'].iteratorPolicy",
        "there is no iterator.",
    ),
    "output that no task of the DAG gives": (
        "collected-parameters",
        lambda spec, _: spec["components"]["comp-for-loop-2"]["dag"].pop("outputs"),
        "components['comp-for-loop-2'].outputDefinitions.parameters['pipelinechannel--total-Output']",
        "no task of the DAG gives it.",
    ),
    "output of a task that is not there": (
        "one-of",
        lambda spec, _: spec["components"]["comp-condition-branches-1"]["dag"]["outputs"]["parameters"][
            "pipelinechannel--condition-branches-1-oneof-1"
        ]["valueFromOneof"]["parameterSelectors"][1].update(producerSubtask="condition-4"),
        "components['comp-condition-branches-1'].dag.outputs.parameters["
        "'pipelinechannel--condition-branches-1-oneof-1'].valueFromOneof.parameterSelectors[1].producerSubtask",
        "there is no task 'condition-4' in this DAG. Did you mean 'condition-2'?",
    ),
    "output of another type": (
        "pipeline-in-pipeline",
        lambda spec, _: spec["components"]["comp-inner"]["outputDefinitions"]["parameters"]["score"].update(
            parameterType="STRING"
        ),
        "components['comp-inner'].dag.outputs.parameters['score'].valueFromParameter",
        "is NUMBER_DOUBLE, and STRING is declared.",
    ),
    "importer without URI": (
        "imports",
        lambda spec, _: spec["deploymentSpec"]["executors"]["exec-importer"]["importer"].pop("artifactUri"),
        "deploymentSpec.executors['exec-importer'].importer.artifactUri",
        "has no URI.",
    ),
    "importer of an input that is not there": (
        "imports",
        lambda spec, _: spec["deploymentSpec"]["executors"]["exec-importer-2"]["importer"]["artifactUri"].update(
            runtimeParameter="url"
        ),
        "deploymentSpec.executors['exec-importer-2'].importer.artifactUri.runtimeParameter",
        "component 'comp-importer-2' takes no 'url'. Did you mean 'uri'?",
    ),
    "executor that no component uses": (
        "one-task",
        lambda spec, _: spec["deploymentSpec"]["executors"].update({"exec-spare": {"container": {"image": "a"}}}),
        "deploymentSpec.executors['exec-spare']",
        "no component uses it.",
    ),
    "component that no task runs": (
        "one-task",
        lambda spec, _: spec["components"].update({"comp-spare": {"executorLabel": "exec-show"}}),
        "components['comp-spare']",
        "no task runs it.",
    ),
    "platform of an unknown executor": (
        "placement",
        lambda _, platform: platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"].update(
            {"exec-shows": {"imagePullPolicy": "Always"}}
        ),
        "platforms['kubernetes'].deploymentSpec.executors['exec-shows']",
        "there is no executor 'exec-shows'. Did you mean 'exec-show'?",
    ),
    "unknown platform": (
        "placement",
        lambda _, platform: platform["platforms"].update(kubernets={"deploymentSpec": {"executors": {"a": {"b": 1}}}}),
        "platforms['kubernets']",
        "there is no such platform. Allowed: kubernetes.",
    ),
    "word of the platform": (
        "placement",
        lambda _, platform: kubernetes(platform, "exec-show").update(imagePullPolicy="IfMissing"),
        "platforms['kubernetes'].deploymentSpec.executors['exec-show'].imagePullPolicy",
        "Allowed: Always, IfNotPresent, Never.",
    ),
    "secret without a name": (
        "secrets",
        lambda _, platform: [
            kubernetes(platform, "exec-show")["secretAsEnv"][0].pop(name)
            for name in ("secretName", "secretNameParameter")
        ],
        "platforms['kubernetes'].deploymentSpec.executors['exec-show'].secretAsEnv[0]",
        "has no name. Give secretName or secretNameParameter.",
    ),
    "secret of a parameter that is not there": (
        "secrets-in-loop",
        lambda _, platform: kubernetes(platform, "exec-show")["secretAsEnv"][0]["secretNameParameter"].update(
            componentInputParameter="name"
        ),
        "platforms['kubernetes'].deploymentSpec.executors['exec-show'].secretAsEnv[0].secretNameParameter."
        "componentInputParameter",
        "component 'comp-for-loop-2' takes no 'name'.",
    ),
    "mount at no absolute path": (
        "volumes",
        lambda _, platform: kubernetes(platform, "exec-show")["pvcMount"][0].update(mountPath="data"),
        "platforms['kubernetes'].deploymentSpec.executors['exec-show'].pvcMount[0].mountPath",
        "'data' is no absolute path.",
    ),
    "size of the workspace": (
        "settings-of-the-whole",
        lambda _, platform: platform["platforms"]["kubernetes"]["pipelineConfig"]["workspace"].update(
            size="5 gigabytes"
        ),
        "platforms['kubernetes'].pipelineConfig.workspace.size",
        "'5 gigabytes' is no quantity.",
    ),
    "quantity": (
        "resources",
        lambda spec, _: container(spec, "exec-show")["resources"].update(resourceMemoryLimit="4GB"),
        "deploymentSpec.executors['exec-show'].container.resources.resourceMemoryLimit",
        "'4GB' is no quantity above 0. Allowed: a number, as in 2, 500m",
    ),
    "request above its limit": (
        "resources",
        lambda spec, _: container(spec, "exec-show")["resources"].update(resourceCpuRequest="2500m"),
        "deploymentSpec.executors['exec-show'].container.resources.resourceCpuRequest",
        "is more than resourceCpuLimit.",
    ),
    "count of accelerators": (
        "resources",
        lambda spec, _: container(spec, "exec-show")["resources"]["accelerator"].update(resourceCount="half"),
        "deploymentSpec.executors['exec-show'].container.resources.accelerator.resourceCount",
        "'half' is no whole number above 0.",
    ),
    "name of the pipeline": (
        "one-task",
        lambda spec, _: spec["pipelineInfo"].update(name="One Task"),
        "pipelineInfo.name",
        "'One Task' is no name of a pipeline",
    ),
    "name of a task": (
        "one-task",
        lambda spec, _: spec["root"]["dag"]["tasks"].update(Show_It=task(spec, "show")),
        "root.dag.tasks['Show_It']",
        "is no name of a task.",
    ),
    "name of an input": (
        "one-task",
        lambda spec, _: spec["root"].update(inputDefinitions={"parameters": {"it's": {"parameterType": "STRING"}}}),
        'root.inputDefinitions.parameters["it\'s"]',
        "no placeholder can spell this name.",
    ),
    "name of a variable": (
        "environment-and-image",
        lambda spec, _: container(spec, "exec-show")["env"][0].update(name="MY MODE"),
        "deploymentSpec.executors['exec-show'].container.env[0].name",
        "'MY MODE' is no name of a variable.",
    ),
    "placeholder of an input that is not there": (
        "containers",
        lambda spec, _: container(spec, "exec-shell")["command"].append("{{$.inputs.parameters['txt']}}"),
        "deploymentSpec.executors['exec-shell'].container.command[5]",
        "there is no input parameter 'txt'.",
    ),
    "placeholder that nobody knows": (
        "containers",
        lambda spec, _: container(spec, "exec-shell")["args"].append("{{$.pipeline_job_uid}}"),
        "deploymentSpec.executors['exec-shell'].container.args[4]",
        "there is no placeholder '{{$.pipeline_job_uid}}'. Did you mean '.pipeline_job_uuid'?",
    ),
    "placeholder that is not closed": (
        "containers",
        lambda spec, _: container(spec, "exec-shell")["args"].append("{{$.pipeline_root}"),
        "deploymentSpec.executors['exec-shell'].container.args[4]",
        "a placeholder is not closed.",
    ),
    "placeholder of a part that depends on no input": (
        "containers",
        lambda spec, _: container(spec, "exec-shell")["args"].append(
            '{"IfPresent": {"InputName": "not", "Then": "x"}}'
        ),
        "deploymentSpec.executors['exec-shell'].container.args[4]",
        "IfPresent asks for 'not', which is no input.",
    ),
    "placeholder in a value": (
        "texts-put-together",
        lambda spec, _: task(spec, "show")["inputs"]["parameters"].pop("pipelinechannel--name"),
        "root.dag.tasks['show'].inputs.parameters['text']",
        "there is no input parameter 'pipelinechannel--name'.",
    ),
    "exit task that runs after success alone": (
        "exit-handler",
        lambda spec, _: task(spec, "notify").pop("triggerPolicy"),
        "root.dag.tasks['notify'].inputs.parameters['status']",
        "an exit task runs however that one ended.",
    ),
    "exit task that does not wait": (
        "exit-handler",
        lambda spec, _: task(spec, "notify").pop("dependentTasks"),
        "root.dag.tasks['notify'].inputs.parameters['status'].taskFinalStatus.producerTask",
        "`dependentTasks` lacks 'exit-handler-1'",
    ),
    "exit task that is told nothing": (
        "exit-handler",
        lambda spec, _: task(spec, "notify")["inputs"]["parameters"].pop("status"),
        "root.dag.tasks['notify'].inputs.parameters",
        "learns by 'status' how a task ended. Give its `taskFinalStatus`, in an exit task.",
    ),
    "two mounts at one path": (
        "volumes",
        lambda _, platform: kubernetes(platform, "exec-show")["emptyDirMounts"][0].update(mountPath="/scratch"),
        "platforms['kubernetes'].deploymentSpec.executors['exec-show'].genericEphemeralVolume[0].mountPath",
        "'/scratch' is mounted twice.",
    ),
    "exit task in another DAG": (
        "exit-handler",
        lambda spec, _: spec["components"]["comp-exit-handler-1"]["dag"]["tasks"].update(
            notify={**task(spec, "notify"), "inputs": {"parameters": {"status": parameter(spec, "notify", "status")}}}
        ),
        "components['comp-exit-handler-1'].dag.tasks['notify'].inputs.parameters['status'].taskFinalStatus.producerTask",
        "there is no task 'exit-handler-1' in this DAG.",
    ),
    "how a task ended, for another input": (
        "exit-handler",
        lambda spec, _: task(spec, "notify")["inputs"]["parameters"].update(
            to={"taskFinalStatus": {"producerTask": "exit-handler-1"}}
        ),
        "root.dag.tasks['notify'].inputs.parameters['to']",
        "takes STRING, not how a task ended",
    ),
    "number of retries": (
        "retries-and-caching",
        lambda spec, _: task(spec, "show")["retryPolicy"].update(maxRetryCount=-1),
        "root.dag.tasks['show'].retryPolicy.maxRetryCount",
        "is -1. Give 0 or more.",
    ),
    "factor between retries": (
        "retries-and-caching",
        lambda spec, _: task(spec, "show")["retryPolicy"].update(backoffFactor=1.5),
        "root.dag.tasks['show'].retryPolicy.backoffFactor",
        "is 1.5. The run ends with an error when the first retry is due. Give a whole number.",
    ),
    "wait that is no duration": (
        "retries-and-caching",
        lambda spec, _: task(spec, "show")["retryPolicy"].update(backoffDuration="1h"),
        "root.dag.tasks['show'].retryPolicy.backoffDuration",
        "is a text, not a number of seconds such as '30s'.",
    ),
    "version": (
        "one-task",
        lambda spec, _: spec.update(schemaVersion="1.0"),
        "schemaVersion",
        "is '1.0'. Known here: 2.1.0.",
    ),
    "workspace that is not there": (
        "imports",
        lambda spec, _: spec["deploymentSpec"]["executors"]["exec-importer"]["importer"].update(
            downloadToWorkspace=True
        ),
        "deploymentSpec.executors['exec-importer'].importer.downloadToWorkspace",
        "there is no workspace.",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found_at_its_place(name: str, forms: Mapping[str, Documents]) -> None:
    form, plant, place, said = PLANTED[name]
    spec, platform = copy_of(forms[form])
    plant(spec, platform)
    found = problems(Documents(spec, platform))
    assert [problem for problem in found if problem.place == place and said in problem.reason], list(map(str, found))
    assert len(found) <= 3, list(map(str, found))  # the one, and what follows from it


ALLOWED: dict[str, tuple[str, Plant]] = {
    "a whole number for a number": (
        "chain",
        lambda spec, _: parameter(spec, "train", "rate").update(componentInputParameter="rows"),
    ),
    "an artifact of any type": (
        "containers",
        lambda spec, _: spec["components"]["comp-read"]["inputDefinitions"]["artifacts"]["data"]["artifactType"].update(
            schemaTitle="system.Artifact"
        ),
    ),
    "a whole number as a text, as protobuf writes long ones": (
        "retries-and-caching",
        lambda spec, _: task(spec, "show")["retryPolicy"].update(maxRetryCount="3"),
    ),
    "a field that is null": (
        "chain",
        lambda spec, _: task(spec, "train").update(retryPolicy=None),
    ),
    "a type as older compilers wrote it": (
        "chain",
        lambda spec, _: spec["components"]["comp-prepare"]["inputDefinitions"]["parameters"].update(
            rows={"type": "INT"}
        ),
    ),
    "a later version of the same schema": (
        "chain",
        lambda spec, _: spec.update(schemaVersion="2.1.9"),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_valid_forms_that_kfp_does_not_write_are_accepted(name: str, forms: Mapping[str, Documents]) -> None:
    form, change = ALLOWED[name]
    spec, platform = copy_of(forms[form])
    change(spec, platform)
    assert (spec, platform) != (forms[form].spec, forms[form].platform)
    assert list(map(str, problems(Documents(spec, platform)))) == []


def test_values_refused_by_protobuf_are_refused(forms: Mapping[str, Documents]) -> None:
    """Every field in turn gets another name, and then a value of another type."""
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2

    free = ("deploymentSpec", "defaultValue", "constant", "metadata")  # of any content in the protobufs
    spec, _ = copy_of(forms["imports"])

    def each_change(node: Any) -> Iterator[None]:
        """Changes the spec in place, and back."""
        for key in [key for key in node if key not in free] if isinstance(node, dict) else ():
            before = node[key]
            node["misspelt"] = node.pop(key)
            yield
            del node["misspelt"]
            node[key] = [[]]
            yield
            node[key] = before
            yield from each_change(before)

    def is_refused() -> bool:
        try:
            json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
        except json_format.ParseError:
            return True
        return False

    refused = 0
    for _ in each_change(spec):
        if is_refused():
            refused += 1
            assert problems(Documents(spec, {}))
    assert refused > 100


def test_the_fields_are_those_of_the_protobufs() -> None:
    from tests.fixtures.kfp_messages import from_installed_kfp

    assert from_installed_kfp() == FILE.read_text(encoding="utf-8"), "run `make shapes` and commit messages.json"


def test_a_field_says_its_container_its_type_and_its_choice() -> None:
    assert messages()["DagSpec"] == {
        "tasks": Field("map", "PipelineTaskSpec", ""),
        "outputs": Field("", "DagOutputsSpec", ""),
    }
    assert messages()["PipelineContainerSpec"]["command"] == Field("list", "text", "")
    assert messages()["ComponentSpec"]["executorLabel"] == Field("", "text", "implementation")
    assert enums()["TriggerStrategy"] == ["ALL_UPSTREAM_TASKS_COMPLETED", "ALL_UPSTREAM_TASKS_SUCCEEDED"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("{{$.inputs.parameters['x']}}"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), value=VALUES)
def test_any_value_anywhere_gets_an_answer(forms: Mapping[str, Documents], seed: int, value: Any) -> None:
    """A problem or none, and no exception: the texts come from anybody."""
    draw = random.Random(seed)
    spec, platform = copy_of(forms[draw.choice(sorted(forms))])
    node: Any = draw.choice([spec, spec, platform]) or spec
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and draw.random() < 0.8:
            node = node[key]
            continue
        if draw.random() < 0.3:
            del node[key]
        elif isinstance(node, dict) and draw.random() < 0.2:
            node[draw.choice([0, "x", "inputs"])] = value
        else:
            node[key] = value
        break
    assert all(str(problem) for problem in problems(Documents(spec, platform)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff", "is not UTF-8"),
        (b"a: [", "not YAML"),
        (b"root: &a {b: *a}", "anchors and aliases are not allowed"),
        (b"root: !!python/object:os.system {}", "tags are not allowed"),
        (b"root: " + b"[" * 60 + b"]" * 60, "nested deeper"),
        (b"root: {}\n---\na: 1\n---\nb: 1", "3 documents"),
        (b"root: {}\nroot: {}", "given twice"),
        (b"- 1", "a document is no object"),
        (b"", "a document is no object"),
        (b"Steps: []\nVersion: '1'", "no pipeline of Kubeflow Pipelines v2"),
        (b"#" * (8 * 1024 * 1024 + 1), "bytes are too much"),
    ],
)
def test_invalid_pipelines_are_refused_in_one_line(text: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        read(text, "given.yaml")
    assert str(refused.value).startswith("given.yaml")
    assert "\n" not in str(refused.value)


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text that is small enough: of one character each there would be millions."""
    monkeypatch.setattr(plain_yaml, "MAX_EVENTS", 100)
    assert read(b"root: [" + b"1," * 80 + b"1]", "given.yaml").spec["root"] == [1] * 81
    with pytest.raises(UserError, match=r"given\.yaml: more than 100 values\."):
        read(b"root: [" + b"1," * 100 + b"1]", "given.yaml")


def test_the_number_of_problems_is_bounded(forms: Mapping[str, Documents]) -> None:
    """Each names what may be meant, which takes its time."""
    spec, _ = copy_of(forms["chain"])
    task(spec, "train")["dependentTasks"] = [f"prepare{number}" for number in range(5_000)]
    assert len(problems(Documents(spec, {}))) == 200
    assert len(problems(Documents({**spec, **{f"field{number}": 1 for number in range(5_000)}}, {}))) == 200
