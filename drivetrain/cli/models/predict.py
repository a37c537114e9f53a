"""`drivetrain models predict`: a registered version answers the rows of a file, by its own code, in its own process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from drivetrain.base.errors import BAD_INPUT, UserError
from drivetrain.base.formatting import approval_words, number
from drivetrain.cli.declared import Argument, Option
from drivetrain.cli.models.registry import NONE_GIVEN, RegistryOptions
from drivetrain.cli.options import Json
from drivetrain.operations.models import check, fetched
from drivetrain.telling.terminal import paint, say, say_json, table

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion, Registry

ENTRY = Path("code") / "inference.py"
SHOWN_ROWS = 10
TIME_LIMIT_S = 3600.0


def predict(
    group: Annotated[str, Argument(metavar="NAME", help="The model group.")],
    source: Annotated[
        Path, Option("--input", "-i", metavar="FILE", help="Rows: .csv, .json, .jsonl, .npy or .parquet.")
    ],
    version: Annotated[
        str | None,
        Option(
            "--version",
            metavar="VERSION",
            help="A number, `latest`, or `approved`. Unless given: the approved version, or the newest that is not "
            "rejected.",
        ),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write all answers, in the ending's format.")
    ] = None,
    keep: Annotated[
        str, Option("--keep", metavar="COLUMNS", help="Columns of the input to hand on, such as id,site.")
    ] = "",
    time_limit: Annotated[
        float, Option("--time-limit", metavar="SECONDS", help="Stop the model's code after this time.")
    ] = TIME_LIMIT_S,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Predict the rows of a file with a registered version.

    The model's code sees nothing of your shell's environment but what steps see, and no network where the kernel allows
    it.

    \b
    Examples:
      drivetrain models predict retraining --input rows.csv
      drivetrain models predict retraining --input rows.parquet --keep id
    """
    import tempfile

    if not source.is_file():
        raise UserError(f"--input {source}: there is no such file.")
    if not time_limit > 0:
        raise UserError(f"--time-limit {time_limit:g}: allowed are more than 0 seconds.")
    if output is not None and output.exists() and output.samefile(source):
        raise UserError(f"--output {output} is the input: the answers would replace its rows. Give another place.")
    found, note = _chosen(where.opened(), group, version)
    with tempfile.TemporaryDirectory(prefix="drivetrain-predict-") as scratch:
        written = Path(scratch) / "answers.jsonl" if output is None else output
        folder = _model(found, Path(scratch), where)
        _run(folder, source, written, keep, Path(scratch), time_limit)
        if note:
            print(note, file=sys.stderr)
        facts: dict[str, Any] = {
            "group": found.group,
            "version": found.version,
            "status": found.status,
            "content_hash": found.content_hash,
        }
        if output is not None:
            if as_json:
                say_json({**facts, "output": str(output)})
            else:
                say(f"{output}: the answers of {_name(found)}")
            return
        rows = [_answer(line) for line in written.read_text(encoding="utf-8").splitlines()]
    if as_json:
        say_json({**facts, "predictions": rows})
    else:
        say(_text(found, rows))


def _chosen(registry: Registry, group: str, version: str | None) -> tuple[ModelVersion, str]:
    """The version that answers, and a line about one that nobody asked for and nobody approved.

    Raises:
        UserError: no version is asked for, and all are rejected.
    """
    if version is not None:
        return registry.version(group, version), ""
    champion = registry.champion(group)
    if champion is not None:
        return champion, ""
    newest = registry.version(group, "latest")
    found = next((each for each in registry.versions(group) if each.status != "Rejected"), None)
    if found is None:
        raise UserError(f"Every version of {group} is rejected. Choose a version: --version {newest.version}.")
    how = approval_words(found.status)
    return found, f"{group} has no approved version. Version {found.version} answers, the newest not rejected ({how})."


def _model(version: ModelVersion, scratch: Path, where: RegistryOptions) -> Path:
    """The folder of a version's model, whose files are those that were registered.

    Raises:
        UserError: they are others, or cannot be served.
        InputError: they cannot be had.
    """
    from drivetrain.registry.model_folder import ARCHIVE, DESCRIPTION, unpack

    label = _name(version)
    folder = fetched(version, scratch / "fetched", where.registry, where.home)
    if version.content_hash:
        check(version, folder)
    else:
        print(f"warning: the registry knows no content hash of {label}: its files are not verified.", file=sys.stderr)
    archive = folder / ARCHIVE if folder.is_dir() else folder
    if archive.is_file() and not (folder / DESCRIPTION).is_file():
        folder = scratch / "unpacked"
        folder.mkdir()
        unpack(archive, folder)
    if (folder / ENTRY).is_file():
        return folder
    if {"format", "weights"} <= _description(folder).keys():
        raise UserError(
            f"{label} has no {ENTRY}, so it cannot predict: it was not written by this release's `train`. Train again."
        )
    raise UserError(
        f"{label} has no {ENTRY}, so it cannot predict: it is a model of your own program. Give it to describe_model "
        "with a module that has load(folder) and predict(model, columns), and register the output `model` of that step."
    )


def _run(folder: Path, source: Path, output: Path, keep: str, scratch: Path, time_limit_s: float) -> None:
    """The model's own program, confined. (Libraries of models are imported there and not here.)

    Raises:
        UserError: what it says is wrong with the rows, or how it failed.
    """
    import importlib.util

    from drivetrain.processes.confining import run_confined
    from drivetrain.processes.supervised import clean_environment

    description = _description(folder)
    framework = description.get("framework", "torch")
    package = {"torch": "'drivetrain[torch]'", "tensorflow": "tensorflow"}.get(framework)
    # Others, and models of functions, say themselves which libraries they are of, before these are loaded.
    if description and package is not None and importlib.util.find_spec(framework) is None:
        raise UserError(
            f"the model predicts with {framework}, which is not installed. Install it with: pip install {package}."
        )
    program = [sys.executable, "-B", str(folder.absolute() / ENTRY)]
    command = [*program, f"--input={source}", f"--output={output}", f"--keep={keep}"]
    temporary = scratch / "tmp"
    temporary.mkdir()
    if (ended := run_confined(command, clean_environment(str(temporary)), time_limit_s)) is None:
        raise UserError(
            f"the model's own code took more than {time_limit_s:g} s and was ended. Give fewer rows, or more time by "
            "--time-limit SECONDS."
        )
    code, out, err = ended
    print(out, end="", file=sys.stderr)  # whatever a recipe of the user's own prints
    lines = err.strip().splitlines()
    if code == BAD_INPUT and lines:
        raise UserError(lines[-1].removeprefix("error: "))
    if code:
        print(err, end="", file=sys.stderr)
        raise UserError(f"the model's own code failed: {lines[-1] if lines else f'exit code {code}'}")


def _answer(line: str) -> dict[str, Any]:
    """A line that the model's own program wrote."""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "predicted" not in answer:
        raise UserError(
            f"the model's code/inference.py answered {line[:80]}. Allowed for each row: a line with a JSON object that "
            'has "predicted".'
        )
    return cast("dict[str, Any]", answer)


def _text(version: ModelVersion, rows: list[dict[str, Any]]) -> str:
    """The first rows as a table; of the probabilities of classes only the predicted class's."""
    answers = ("predicted", "score", "scores")
    kept = [name for name in rows[0] if name not in answers]
    scored = "score" in rows[0] or ("scores" in rows[0] and isinstance(rows[0]["predicted"], int))
    head = ["row", *kept, "predicted", *(["probability"] if scored else [])]
    cells = [
        [
            str(place),
            *(str(row[name]) for name in kept),
            _shown(row["predicted"]),
            *([number(_probability(row))] if scored else []),
        ]
        for place, row in enumerate(rows[:SHOWN_ROWS])
    ]
    title = f"{_name(version)}, {approval_words(version.status)}"
    lines = [paint(title, "bold"), table(head, cells)]
    if len(rows) > SHOWN_ROWS:
        lines.append(f"and {len(rows) - SHOWN_ROWS:,} more rows; --output FILE writes all, --json prints them")
    return "\n".join(lines)


def _name(version: ModelVersion) -> str:
    return f"{version.group} version {version.version}"


def _shown(predicted: Any) -> str:
    return json.dumps(predicted) if isinstance(predicted, list | float) else str(predicted)


def _probability(row: dict[str, Any]) -> float:
    """The probability of the predicted class."""
    if "scores" in row:
        return row["scores"][row["predicted"]]
    return row["score"] if row["predicted"] else 1 - row["score"]


def _description(folder: Path) -> dict[str, Any]:
    """A model's description of itself; empty where none can be read: its own program says so."""
    try:
        found = json.loads((folder / "model.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
