"""Programs that EMR and EMR Serverless are asked to run, with their options, read from a step's arguments.

A Python file that lies in the object store (or in what --data gives for it) runs here; all else is refused unless
stubbed.

https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark-submit-step.html
https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_SparkSubmit.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.processes.container import Host, Job
from drivetrain.run_store.objects import ObjectStore, missing
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import entries
from drivetrain.targets.sagemaker.run.spark import here, submit
from drivetrain.targets.sagemaker.run.step_types._absent import Describe, refusal

# As Spark's file systems spell the objects of S3.
_URI = re.compile(r"s3[an]?://[^\s,'\"]+")


class NotHereError(UserError):
    """An error: a step asks for what only a cluster has. The message follows `it`."""


@dataclass(frozen=True)
class Program:
    """`program` is the URI of a Python file, None where it is known only when the step runs; `options` are
    spark-submit's."""

    program: str | None
    options: tuple[str, ...]
    arguments: tuple[str, ...]
    settings: Mapping[str, str]

    @property
    def uris(self) -> list[str]:
        """The URIs of S3 that it names: what it reads, and what it writes."""
        words = (self.program or "", *self.options, *self.arguments)
        return list(dict.fromkeys(as_s3(found) for word in words for found in _URI.findall(word)))


def of_emr(arguments: Mapping[str, Any]) -> Program:
    """The program of an EMR step.

    Raises:
        NotHereError: it is no Python program of Spark.
    """
    jar = object_in(object_in(arguments, "StepConfig"), "HadoopJarStep")
    words = _words(jar.get("Args"))
    name = str(jar.get("Jar") or "").rpartition("/")[2]
    if name != "command-runner.jar" or words[:1] != ["spark-submit"]:
        what = f"{name or 'nothing'} {' '.join(words[:1])}".strip()
        raise NotHereError(f"runs {what!r}: command-runner.jar with spark-submit alone runs here")
    return _program(words[1:], {})


def of_serverless(arguments: Mapping[str, Any]) -> Program:
    """The program of an EMRServerless step.

    Raises:
        NotHereError: it is no Python program of Spark.
        UserError: invalid options.
    """
    config = object_in(arguments, "JobConfig")
    driver = object_in(config, "jobDriver")
    asked = object_in(driver, "sparkSubmit")
    if not asked:
        raise NotHereError(f"runs {', '.join(driver) or 'nothing'}: sparkSubmit alone runs here")
    settings: dict[str, str] = {}
    for entry in entries(object_in(config, "configurationOverrides"), "applicationConfiguration"):
        if entry.get("classification") == "spark-defaults":
            settings |= {name: str(value) for name, value in object_in(entry, "properties").items()}
    parameters = asked.get("sparkSubmitParameters")
    try:
        options = shlex.split(parameters) if isinstance(parameters, str) else []
    except ValueError as error:
        raise UserError(f"sparkSubmitParameters {parameters!r:.80} are no words of a shell: {error}.") from None
    return _program([*options, *_words([asked.get("entryPoint")]), *_words(asked.get("entryPointArguments"))], settings)


def steps(
    read: Callable[[Mapping[str, Any]], Program], needs: str, describe: Describe
) -> tuple[
    Callable[[StepNode, RunPlan], list[str]],
    Callable[[StepContext], StepResult],
    Callable[[Mapping[str, Any]], list[str]],
]:
    """A step type's `check`, `run` and `named`.

    Args:
        read: finds the program in the arguments.
        needs: what its steps work with ("an EMR cluster").
        describe: what the describe call says.
    """

    def check(step: StepNode, plan: RunPlan) -> list[str]:
        try:
            uri = read(plan.arguments).program
            if problem := here.problem(step.name):
                return [problem]
            if uri is None or plan.is_written(uri) or plan.store.exists(uri):
                return []
            return [missing(f"step {step.name!r}: its program", uri, plan.store)]
        except NotHereError as problem:
            return [f"{refusal(step, needs)} It {problem}."]
        except UserError as error:
            return [f"step {step.name!r}: {error}"]

    def run(context: StepContext) -> StepResult:
        _run(context, read(context.arguments))
        return StepResult(response={**context.arguments, **describe(context)})

    def named(arguments: Mapping[str, Any]) -> list[str]:
        try:
            return read(arguments).uris
        except UserError:  # check says it
            return []

    return check, run, named


def _run(context: StepContext, program: Program) -> None:
    """Run the program in `local[*]`; objects of S3 are those of this machine's store.

    Raises:
        StepFailedError: it failed.
        UserError: a file of it is not there.
    """
    root = context.folder / jobs.HOSTS / "127.0.0.1"
    root.mkdir(parents=True)
    assert program.program is not None, "all is known when a step runs"
    path = context.store.path(program.program)
    if not path.is_file():
        raise UserError(missing(f"step {context.step.name!r}: its program", program.program, context.store))
    variables = here.variables(context.store, program.uris, program.settings)
    job = Job(
        command=here.command(*_local(program.options, context.store), str(path.resolve()), *program.arguments),
        environment={**jobs.job_environment(context), **variables},
        hosts=(Host("127.0.0.1", root),),
        log_folder=context.logs,
        mode=context.options.mode,
    )
    context.run_job(job)


def _program(words: Sequence[str], settings: Mapping[str, str]) -> Program:
    """spark-submit's words: options, the program, its arguments."""
    rest, options = list(words), list[str]()
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        options.append(option)
        if option not in submit.FLAGS and "=" not in option and rest:
            options.append(rest.pop(0))
    if "--class" in options:
        raise NotHereError("runs a class of Java: Python files alone run here")
    program = rest[0] if rest else ""
    if program == _LATER:
        return Program(None, tuple(options), tuple(rest[1:]), settings)
    if not (program.endswith(".py") and _URI.fullmatch(program)):
        raise NotHereError(f"runs the program {program!r}: Python files of S3 (s3://.../job.py) alone run here")
    return Program(as_s3(program), tuple(options), tuple(rest[1:]), settings)


# Stands for a word that is known only when the step runs.
_LATER = "<later>"


def _words(given: Any) -> list[str]:
    words = cast("list[Any]", given) if isinstance(given, list) else []
    return [word if isinstance(word, str) else _LATER if isinstance(word, dict) else str(word) for word in words]


def as_s3(uri: str) -> str:
    """s3a:// and s3n:// are other spellings of s3://."""
    return "s3://" + uri.partition("://")[2]


def _local(options: Sequence[str], store: ObjectStore) -> Iterator[str]:
    """The options, in which files of S3 are those of the store: spark-submit itself reads them."""
    of_files = False
    for option in options:
        name, equal, value = option.partition("=")
        if name in submit.FILES and equal:
            yield f"{name}={_paths(value, store)}"
        else:
            yield _paths(option, store) if of_files else option
        of_files = option in submit.FILES


def _paths(text: str, store: ObjectStore) -> str:
    return ",".join(
        str(store.path(as_s3(each)).resolve()) if _URI.fullmatch(each) else each for each in text.split(",")
    )
