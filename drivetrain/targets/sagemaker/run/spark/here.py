"""Check if Spark runs on this machine, and prepare what its jobs find in their containers."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from drivetrain.assets.image import SPARK_SUBMIT, TRANSFORM_DATA
from drivetrain.base.errors import UserError
from drivetrain.processes.mounts import search_path
from drivetrain.run_store.durable import parse
from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.spark import submit

_HADOOP = "spark.hadoop"
_BUCKET = re.compile(r"s3[an]?://[A-Za-z0-9][A-Za-z0-9._-]*")
PROGRAM = Path(submit.__file__)


def problem(step: str) -> str | None:
    """Why a step that Spark runs cannot run here, and what helps; None where it can."""
    lacking = [
        *(["Java 17 or newer (the command java is not found)"] if shutil.which("java") is None else ()),
        *(["PySpark (python -m pip install 'drivetrain[spark]')"] if home() is None else ()),
    ]
    if not lacking:
        return None
    return (
        f"step {step!r} runs on Spark, which needs {' and '.join(lacking)}. Install it, give transform_data "
        f"engine=polars, or give the step's results with --stub {step}=outputs.json."
    )


def is_needed(command: Sequence[str]) -> bool:
    """Return True if a job that is submitted to Spark uses it: transform_data does not with another engine, which a
    parameter of the pipeline may have chosen."""
    transforms = any(word.partition(":")[0] == TRANSFORM_DATA for word in command)
    return not transforms or ("--engine", "spark") in itertools.pairwise(command)


def home() -> Path | None:
    """The folder of the installed PySpark, with its spark-submit."""
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent


def command(*words: str) -> tuple[str, ...]:
    """Starts a program of Spark: options of spark-submit, the program, its arguments."""
    return (sys.executable, str(PROGRAM), *words)


def with_smspark(context: StepContext, given: Sequence[str]) -> dict[str, str]:
    """Variables with which a job in SageMaker's Spark image finds its command smspark-submit.

    Args:
        context: of the step.
        given: the job's whole command.

    Raises:
        UserError: it works with Spark, which is not here, as only turned out in the run.
    """
    if (needs := is_needed(given)) and (lacking := problem(context.step.name)):
        raise UserError(lacking)
    commands = context.folder / "commands"
    commands.mkdir()
    starts = commands / SPARK_SUBMIT
    starts.write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n', encoding="utf-8")
    starts.chmod(0o700)
    named = _BUCKET.findall(json.dumps(context.arguments))
    path = {"PATH": os.pathsep.join((str(commands.resolve()), search_path()))}
    return {**path, **(variables(context.store, named) if needs else {submit.HOME: ""})}


def variables(store: ObjectStore, uris: Iterable[str], settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables that say where Spark is, and where the objects of S3 are.

    Args:
        uris: those whose buckets the program may ask for; those that the store has, too.
        settings: Spark's own.
    """
    found = home()
    assert found is not None, "checked before the run"
    buckets = {parse(uri)[0] for uri in uris}
    told = {**store_settings(store, buckets), **(settings or {})}
    return {submit.HOME: str(found), submit.SETTINGS: json.dumps(told)}


def store_settings(store: ObjectStore, buckets: Iterable[str]) -> dict[str, str]:
    """Settings with which `s3://bucket/key` (s3a, s3n) is what the object store has there.

    A view of Hadoop's stands for S3, with a mount table a bucket
    (https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/ViewFsOverloadScheme.html). `raw` are local
    files without the checksums that Hadoop otherwise writes beside each.
    """
    found = {f"{_HADOOP}.fs.raw.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}
    for scheme in ("s3", "s3a", "s3n"):
        found[f"{_HADOOP}.fs.{scheme}.impl"] = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
    committer = "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory"
    found[f"{_HADOOP}.mapreduce.outputcommitter.factory.scheme.s3a"] = committer
    store.root.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in store.root.iterdir() if path.is_dir() and not path.name.startswith(".")}
    for bucket in sorted({*buckets, *there}):
        folder = store.root / bucket
        folder.mkdir(exist_ok=True)
        found[f"{_HADOOP}.fs.viewfs.mounttable.{bucket}.linkFallback"] = f"raw://{folder.resolve()}"
    for uri, path in store.elsewhere.items():
        bucket, _, key = uri.partition("/")
        if key:
            found[f"{_HADOOP}.fs.viewfs.mounttable.{bucket}.link./{key}"] = f"raw://{path}"
        else:
            found[f"{_HADOOP}.fs.viewfs.mounttable.{bucket}.linkFallback"] = f"raw://{path}"
    return found
