"""Stands for smspark-submit, the entry point of SageMaker's Spark image, and for spark-submit of a cluster (standard
library only):

    python submit.py [OPTION VALUE ...] APP [ARGUMENT ...]

It becomes spark-submit of the installed PySpark with the master `local[*]`. As smspark-submit it takes a folder for
--jars, --py-files and --files, and settings from /opt/ml/processing/input/conf/configuration.json; of several hosts the
first one runs the program. https://github.com/aws/sagemaker-spark-container/blob/master/src/smspark/cli.py
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

# What the runner says: the folder of PySpark (empty where the program works without Spark), and settings that stand
# for those of the image.
HOME, SETTINGS = "SPARK_HOME", "DRIVETRAIN_SPARK_SETTINGS"
FLAGS = ("-v", "--verbose", "--supervise")
FILES = ("--jars", "--py-files", "--files")
# Where a job runs and what a cluster gives it; here it runs on this machine.
_OF_CLUSTERS = ("--master", "--deploy-mode", "--queue", "--spark-event-logs-s3-uri")
_EVENTS = "--local-spark-event-logs-dir"
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "WARN",
}
# Settings of a place, as _OF_CLUSTERS.
_PLACES = ("spark.master", "spark.submit.deployMode", "spark.driver.host", "spark.driver.bindAddress")


class SubmitError(ValueError):
    """The message says what was found and what is allowed."""


def main(arguments: Sequence[str]) -> NoReturn:
    base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
    try:
        if not is_first(base):
            print(f"{os.path.basename(__file__)}: this host has nothing to do: Spark runs on the first one.")
            sys.exit(0)
        given = dict(json.loads(os.environ.get(SETTINGS, "{}")))
        settings = {**_LOCAL, **given, **configured(f"{base}/processing/input/conf/configuration.json")}
        home = os.environ[HOME]
        if home:
            command = [f"{home}/bin/spark-submit", *command_of(arguments, settings)]
        else:
            command = [sys.executable, *arguments]
    except (SubmitError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.stdout.flush()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.execve(command[0], command, environment)


def is_first(base: str) -> bool:
    """Return True if this host is the one on which the image runs the program."""
    path = Path(base, "config", "resourceconfig.json")
    if not path.exists():
        return True
    resources = json.loads(path.read_text(encoding="utf-8"))
    return resources["current_host"] == min(resources["hosts"])


def configured(path: str) -> dict[str, str]:
    """The settings of Spark in a list of EMR's classifications; what is of a cluster's other parts is not used here.

    Raises:
        SubmitError: no such list.
    """
    if not os.path.exists(path):
        return {}
    try:
        found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        given = cast("list[Any]", found if isinstance(found, list) else [found])
        pairs = [(str(entry["Classification"]), dict[str, Any](entry.get("Properties") or {})) for entry in given]
    except (ValueError, TypeError, KeyError) as error:
        raise SubmitError(
            f"{path}: {error!r}. Allowed: a list of objects with Classification and Properties, as EMR has them."
        ) from None
    unused = sorted({name for name, _ in pairs if name != "spark-defaults"})
    if unused:
        print(f"note: there is no cluster here, so these are not used: {', '.join(unused)}")
    return {name: str(value) for kind, values in pairs if kind == "spark-defaults" for name, value in values.items()}


def command_of(arguments: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """The arguments of spark-submit on this machine.

    Raises:
        SubmitError: an option without a value; no program; files that are not there.
    """
    rest, options, conf = list(arguments), list[str](), dict(settings)
    while rest and rest[0].startswith("-"):
        option, equal, value = rest.pop(0).partition("=")
        if option in FLAGS:
            options.append(option)
            continue
        if not equal:
            if not rest:
                raise SubmitError(f"{option} has no value.")
            value = rest.pop(0)
        if option in ("--conf", "-c"):
            name, _, of_it = value.partition("=")
            conf[name] = of_it
        elif option == _EVENTS:
            os.makedirs(value, exist_ok=True)
            conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{value}"}
        elif option in FILES:
            options += [option, ",".join(files(option, value.split(",")))]
        elif option not in _OF_CLUSTERS:
            options += [option, value]
    if not rest:
        raise SubmitError("no program. Give the path of a .py or .jar file after the options.")
    if not os.path.exists(rest[0]):
        raise SubmitError(f"the program {rest[0]} is not there.")
    words = [word for name, value in conf.items() if name not in _PLACES for word in ("--conf", f"{name}={value}")]
    places = [word for name in _PLACES[2:] for word in ("--conf", f"{name}=127.0.0.1")]
    return ["--master", "local[*]", *words, *places, *options, *rest]


def files(option: str, paths: Iterable[str]) -> Iterator[str]:
    """The files of a list; of a folder those that lie in it."""
    for path in paths:
        if os.path.isdir(path):
            found = sorted(entry.path for entry in os.scandir(path) if entry.is_file())
            if not found:
                raise SubmitError(f"{option}: there is no file in {path}.")
            yield from found
        elif "://" in path or os.path.isfile(path):
            yield path
        else:
            raise SubmitError(f"{option}: {path} is not there. Give an absolute path of a file or folder.")


if __name__ == "__main__":
    main(sys.argv[1:])
