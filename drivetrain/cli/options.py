"""Options that several commands have, and the texts of some, such as `NAME=VALUE`, read and checked before anything
starts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import Argument, Option

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption

Home = Annotated[
    Path | None,
    Option("--home", metavar="DIR", help="Folder of runs and models  [default: $DRIVETRAIN_HOME or .drivetrain]"),
]
Json = Annotated[bool, Option("--json", help="Print JSON, for scripts.")]
JsonLines = Annotated[bool, Option("--json", help="Print JSON lines, for scripts.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print the run's id alone; what failed, on stderr.")]
Config = Annotated[Path | None, Option("--config", "-c", metavar="FILE", help="YAML file with settings.")]


def _settings(incomplete: str, given: Mapping[str, Any]) -> list[str]:
    from drivetrain.cli.completion import settings

    return settings(incomplete, given["target"])


Set = Annotated[
    list[str] | None,
    Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Change a setting, such as epochs=20. Repeatable.",
        complete=_settings,
    ),
]


def _targets(incomplete: str, _: Mapping[str, Any]) -> list[str]:
    from drivetrain.targets.target import target_names

    return [name for name in target_names() if name.startswith(incomplete)]


Target = Annotated[
    str | None,
    Option(
        "--target",
        "-t",
        metavar="NAME",
        help="The target: sagemaker, kubeflow, ... (docs/targets.md)  [default: deployment.target of the settings]",
        complete=_targets,
    ),
]
On = Annotated[
    str | None,
    Option(
        "--on",
        metavar="TARGET",
        help="Where a pipeline is deployed: sagemaker, kubeflow, ... Without it, this machine.",
        complete=_targets,
    ),
]
OnPipeline = Annotated[
    str | None,
    Option("--pipeline", "-p", metavar="PIPELINE", help="With --on, whose run: a name, or FILE.py[:FUNCTION]."),
]
OnConfig = Annotated[
    Path | None,
    Option("--config", "-c", metavar="FILE", help="The settings of a deployment; they name its target, too."),
]
OnSet = Annotated[
    list[str] | None,
    Option("--set", "-s", metavar="KEY=VALUE", help="A setting of a deployment. Repeatable."),
]
Region = Annotated[
    str | None,
    Option("--region", metavar="REGION", help="The AWS region  [default: the settings' region, or AWS_REGION]"),
]
Interrupt = Annotated[
    list[str] | None,
    Option(
        "--interrupt",
        metavar="STEP@WHEN",
        help="Rehearse the loss of a training's machines: train@step=120, train@poisson=60s,notice=2s. Repeatable.",
    ),
]


def _runs(incomplete: str, _: Mapping[str, Any]) -> list[str]:
    from drivetrain.cli.completion import runs

    return runs(incomplete)


Execution = Annotated[
    str,
    Argument(
        metavar="ID",
        help="A run's id, its name, the beginning of its id, `latest`, or `latest~1` (the one before).",
        show_default=False,
        complete=_runs,
    ),
]


def refuse_both(target: str | None, definition: Path | None, command: str) -> None:
    """
    Raises:
        UserError: neither a pipeline nor a definition is given, or both are.
    """
    if (target is None) == (definition is None):
        raise UserError(
            f"Give a pipeline (drivetrain {command} retraining) or a definition (drivetrain {command} -d FILE.json)."
        )


def pairs(option: str, given: Iterable[str] | None, example: str) -> dict[str, str]:
    """`NAME=VALUE` texts as a dict.

    Raises:
        UserError: a text without `=` or name, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {text!r}: give {example}.")
        if name in found:
            raise UserError(f"{option} {name} is given twice. Give it once.")
        found[name] = value
    return found


def tags(given: Iterable[str] | None) -> dict[str, str]:
    """`NAME=TEXT` texts.

    Raises:
        UserError: what no tag can be.
    """
    if not given:
        return {}
    from drivetrain.run_store.labels import checked_tags

    return checked_tags(pairs("--tag", given, "NAME=TEXT, such as team=vision"))


def stubs(given: Iterable[str] | None) -> dict[str, dict[str, Any]]:
    """`STEP=FILE.json` texts with the files read. `STEP` alone gives nothing but what a step of its type always says.

    Raises:
        UserError: a file that is not there, or does not hold a JSON object.
    """
    from drivetrain.base.json_text import parse

    found: dict[str, dict[str, Any]] = {}
    texts = [text if "=" in text else f"{text}=" for text in given or ()]
    for step, name in pairs("--stub", texts, "STEP=FILE.json, the outputs that the step would have, or STEP").items():
        if not name:
            found[step] = {}
            continue
        path = Path(name)
        try:
            content = parse(path.read_bytes(), str(path))
        except OSError as error:
            raise UserError(f"--stub {step}={name}: {error.strerror}.") from None
        if not isinstance(content, dict):
            raise UserError(f"--stub {step}={name}: the file must hold a JSON object, such as {{}}.")
        found[step] = content
    return found


def image_commands(given: Iterable[str] | None) -> dict[str, tuple[str, ...]]:
    """`IMAGE=COMMAND` texts; the command is split into words as a shell would, and no shell ever sees it. Programs of
    the working folder get their whole path, since the job starts in a folder of its own.

    Raises:
        UserError: an empty command, or one with an open quote.
    """
    found: dict[str, tuple[str, ...]] = {}
    for image, text in pairs("--image-command", given, "IMAGE=COMMAND, such as my-image='python serve.py'").items():
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise UserError(f"--image-command {image}: {text!r}: {str(error).lower()}.") from None
        if not words:
            raise UserError(f"--image-command {image}: the command is empty. Give what runs in the image's place.")
        found[image] = tuple(map(_whole_path, words))
    return found


def _whole_path(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if (path.suffix in (".py", ".sh") or "/" in word) and path.is_file() else word


def selected(given: Iterable[str] | None, source: str | None) -> tuple[str, ...]:
    """`STEP,STEP` texts as names, each once.

    Raises:
        UserError: an empty name, or a source without a selection.
    """
    names = [name.strip() for text in given or () for name in text.split(",")]
    if any(not name for name in names):
        raise UserError("--select: a name is empty. Give STEP,STEP, such as evaluate,compare.")
    if source is not None and not names:
        raise UserError("--from says where steps that are not selected come from. Give --select STEP,..., too.")
    return tuple(dict.fromkeys(names))


def interruptions(given: Iterable[str] | None) -> tuple[Interruption, ...]:
    """`STEP@step=120` texts, as targets/sagemaker/run/interruption_simulation/interruptions.py has them.

    Raises:
        UserError: none of the allowed forms.
    """
    if not given:
        return ()
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all

    return parse_all(given)


def trackers(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings of trackers, as they are kept with a run.

    Raises:
        UserError: as `checked` of drivetrain/trackers/tracker.py.
    """
    if not given:
        return {}
    from drivetrain.trackers.tracker import checked

    return checked(given)


def data(given: Iterable[str] | None) -> dict[str, str]:
    """`s3://URI=PATH` texts; `model/NAME=PATH` for a model of the account.

    Raises:
        UserError: something that is no S3 URI, or a path that does not exist.
    """
    found: dict[str, str] = {}
    for text in given or ():
        if text.startswith("model/") and "=" in text:
            from drivetrain.targets.sagemaker.run.batch_transform.account_models import uri_of

            name, _, path = text.removeprefix("model/").partition("=")
            if not Path(path).exists() or not path:
                raise UserError(f"--data {text!r}: there is no file or folder {path!r}.")
            found[uri_of(name, is_archive=not Path(path).is_dir())] = path
            continue
        if not text.startswith("s3://") or "=" not in text:
            raise UserError(
                f"--data {text!r}: give s3://BUCKET/KEY=PATH, with a file or folder of this machine, or "
                "model/NAME=PATH for a model of the account."
            )
        # A key may hold "=" (dt=2026-11-20/), and so may a path: the longest URI with a path that exists.
        cuts = [at for at, char in enumerate(text) if char == "="]
        cut = next((at for at in reversed(cuts) if text[at + 1 :] and Path(text[at + 1 :]).exists()), None)
        if cut is None:
            raise UserError(f"--data {text!r}: there is no file or folder {text[cuts[-1] + 1 :]!r}.")
        found[text[:cut]] = text[cut + 1 :]
    return found
