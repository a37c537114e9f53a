"""Options that several commands have, and the texts of some, such as `NAME=VALUE`, read and checked before anything
starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home
from drivetrain.cli.declared import Argument, Option

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption

MOST_COMPLETED = 50
"""Runs among the words that a shell offers."""

Home = Annotated[
    Path | None,
    Option("--home", metavar="DIR", help="Folder of runs and models  [default: $DRIVETRAIN_HOME or .drivetrain]"),
]
Json = Annotated[bool, Option("--json", help="Print JSON, for scripts.")]
JsonLines = Annotated[bool, Option("--json", help="Print JSON lines, for scripts.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print the run's id alone; what failed, on stderr.")]
Config = Annotated[Path | None, Option("--config", "-c", metavar="FILE", help="YAML file with settings.")]


def _settings(incomplete: str, given: Mapping[str, Any]) -> list[str]:
    """`NAME=` of a pipeline's own settings that begin so; none where there is no such pipeline."""
    from contextlib import redirect_stdout
    from io import StringIO

    from drivetrain.authoring.loading import settings_of
    from drivetrain.authoring.settings import Settings

    try:
        with redirect_stdout(StringIO()):  # what a file prints as it is imported is no word
            kind = settings_of(given["target"] or "")
    except UserError:
        return []
    own = kind.model_fields.keys() - Settings.model_fields
    return [f"{name}=" for name in kind.model_fields if name in own and name.startswith(incomplete)]


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
    """Names and ids of runs here that begin so; none where the ledger cannot be read."""
    from drivetrain.run_store.reader import Ledger

    try:
        with Ledger(local_home(None)) as ledger:
            rows = ledger.executions(MOST_COMPLETED)
    except UserError:
        return []  # a shell asks while the user types: there is no place for a message
    known = ["latest", *(row.name for row in rows if row.name), *(row.id for row in rows)]
    return [word for word in known if word.startswith(incomplete)]


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
    """`STEP=FILE.json` texts with the files read, as operations/stand_ins.py does; `STEP` alone has no file."""
    if not given:
        return {}
    from drivetrain.operations import stand_ins

    texts = [text if "=" in text else f"{text}=" for text in given]
    example = "STEP=FILE.json, the outputs that the step would have, or STEP"
    return stand_ins.stubs(pairs("--stub", texts, example), "--stub")


def image_commands(given: Iterable[str] | None) -> dict[str, tuple[str, ...]]:
    """`IMAGE=COMMAND` texts, as operations/stand_ins.py reads them."""
    if not given:
        return {}
    from drivetrain.operations import stand_ins

    example = "IMAGE=COMMAND, such as my-image='python serve.py'"
    return stand_ins.image_commands(pairs("--image-command", given, example), "--image-command")


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


def data(given: Iterable[str] | None) -> dict[str, str]:
    """`s3://URI=PATH` texts, as operations/stand_ins.py reads them; `model/NAME=PATH` for a model of the account."""
    if not given:
        return {}
    from drivetrain.operations import stand_ins

    return stand_ins.data(dict(map(_uri_and_path, given)), "--data")


def _uri_and_path(text: str) -> tuple[str, str]:
    """A key may hold "=" (dt=2026-11-20/), and so may a path: the longest URI with a path that exists."""
    cuts = [at for at, char in enumerate(text) if char == "="]
    cuts = cuts[:1] if text.startswith("model/") else cuts
    there = (at for at in reversed(cuts) if text[at + 1 :] and Path(text[at + 1 :]).exists())
    cut = next(there, cuts[-1] if cuts else len(text))
    return text[:cut], text[cut + 1 :]
