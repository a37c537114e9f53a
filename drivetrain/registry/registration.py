"""The registration of a model: its content's hash, its metrics, and the package, in CreateModelPackage's words.

Both ways to register use it, the component and the local runner's step, so that their versions read alike.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

from drivetrain.base.errors import InputError
from drivetrain.base.json_text import object_in
from drivetrain.registry import model_package
from drivetrain.registry.binding import AGAINST, NO_CHAMPION, REPORT, as_text
from drivetrain.registry.content_hash import ARCHIVE, hash_of_files
from drivetrain.registry.model_card import Card, as_package_card, estimator_of, model_card
from drivetrain.registry.model_package import CONTINUES, CONTINUES_FILE
from drivetrain.registry.record import ModelRecord, Serving
from drivetrain.registry.report_hash import EVALUATION_FORMAT, check_decision, checked_report, report_hash

EVALUATION_FILE = "evaluation.json"
DECISION_FILE = "decision.json"
DESCRIPTION_FILE = "model.json"
INFERENCE_FILE = "code/inference.py"
MOST_BYTES = 16 << 20
# What CreateModelPackage takes for a value (`\p{L}\p{Z}\p{N}` in the service model).
_PROPERTY = re.compile(r"[\w \u00a0.:/=+\-@]{1,256}")
# How many of the records that _shorter makes lack nothing that is worth more than the numbers of single classes.
_MORE_THAN_CLASSES = 3
# Of a decision record in a card that has no room for more.
_MOST_REASONS, _MOST_OF_A_REASON = 20, 500
# Of ModelDataUrl; another place is the package's SourceUri.
_DATA_URL = re.compile(r"(https|s3)://([^/]+)/?(.*)")
# What a model's code/inference.py reads and writes.
CONTENT_TYPES = ("application/json", "application/jsonlines", "text/csv", "application/x-npy")


class Evidence(NamedTuple):
    """The evidence on a model beside its files; each part may be missing."""

    description: Mapping[str, Any] | None = None
    """The content of model.json."""
    evaluation: Mapping[str, Any] | None = None
    """The content of evaluation.json."""
    decision: Mapping[str, Any] | None = None
    """The content of decision.json."""


def read_json(path: Path, file: str, advice: str) -> dict[str, Any]:
    """The JSON object in a file, or in that of a folder.

    Raises:
        InputError: no such file, a file that is too large or no JSON object of finite numbers.
    """
    path = path / file if path.is_dir() else path
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} has more than {MOST_BYTES:,} bytes: no {file}.")
        content: Any = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise InputError(f"{path.parent} has no {path.name}. {advice}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON are ValueErrors
        raise InputError(f"{path} is not a JSON file: {error}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object. {advice}")
    return cast("dict[str, Any]", content)


def is_evaluation(content: Mapping[str, Any]) -> bool:
    """Return True if a JSON object is an evaluation.json of ours: others use the name, too."""
    return content.get("format") in range(1, EVALUATION_FORMAT + 1) and isinstance(content.get("metrics"), Mapping)


def read_evaluation(report: Path) -> dict[str, Any]:
    """The evaluation in a report's folder.

    Raises:
        InputError: it is missing, or was changed after evaluate wrote it.
    """
    content = read_json(report, EVALUATION_FILE, "Give the output `report` of evaluate.")
    if not is_evaluation(content):
        raise InputError(
            f"{report} holds no evaluation of format 1 to {EVALUATION_FORMAT}. Give the output `report` of evaluate."
        )
    checked_report(content, report / EVALUATION_FILE if report.is_dir() else report)
    return content


def read_decision(folder: Path) -> dict[str, Any]:
    """The decision record in a folder, or at a path.

    Raises:
        InputError: it is missing, or was changed after compare wrote it.
    """
    content = read_json(folder, DECISION_FILE, "Give the output `decision` of compare.")
    if content.get("format") != 1 or not isinstance(content.get("verdict"), str):
        raise InputError(f"{folder} holds no decision of format 1. Give the output `decision` of compare.")
    check_decision(content, folder / DECISION_FILE if folder.is_dir() else folder)
    return content


def describe(model: Path) -> dict[str, Any] | None:
    """Read model.json of a model's folder or archive; None for a model without one. For a script's model that has
    continues.json alone, what it continues."""
    if model.is_dir() and not (model / DESCRIPTION_FILE).is_file() and (model / ARCHIVE).is_file():
        model = model / ARCHIVE
    if model.is_dir():
        advice = "Give the output `model` of a training step."
        if (model / DESCRIPTION_FILE).is_file():
            return read_json(model, DESCRIPTION_FILE, advice)
        return {CONTINUES: read_json(model, CONTINUES_FILE, advice)} if (model / CONTINUES_FILE).is_file() else None
    continues: dict[str, Any] | None = None
    try:
        with tarfile.open(model, mode="r|gz") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if name in (DESCRIPTION_FILE, CONTINUES_FILE) and member.isreg() and member.size <= MOST_BYTES:
                    file = archive.extractfile(member)
                    content: Any = json.loads(file.read()) if file is not None else None
                    found = cast("dict[str, Any]", content) if isinstance(content, dict) else None
                    if name == DESCRIPTION_FILE:
                        return found
                    continues = None if found is None else {CONTINUES: found}
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{model}: its {DESCRIPTION_FILE} cannot be read: {error}.") from None
    return continues


def checked_evidence(evidence: Evidence, files: Mapping[str, str]) -> Evidence:
    """The evidence, if it is about this model.

    Args:
        files: those of the model, name -> SHA-256.

    Raises:
        InputError: the evaluation or the decision says that it is of another one, or model.json has other weights.
    """
    content_hash, weights = hash_of_files(files), object_in(evidence.description or {}, "weights")
    name, expected = weights.get("file"), weights.get("sha256")
    if isinstance(name, str) and isinstance(expected, str) and files.get(name) != expected:
        what = (
            f"{name} is not the file that {DESCRIPTION_FILE} describes: it was cut off, changed or is another model's"
        )
        if name not in files:
            what = f"{DESCRIPTION_FILE} describes {name}, which is not there"
        raise InputError(f"{what}. Train or copy the model again.")
    of = {
        EVALUATION_FILE: object_in(evidence.evaluation or {}, "model").get("content_hash"),
        DECISION_FILE: object_in(evidence.decision or {}, "candidate").get("content_hash"),
    }
    for file, named in of.items():
        if isinstance(named, str) and named and named != content_hash:
            raise InputError(
                f"{file} belongs to another model: {named[:12]}…, not {content_hash[:12]}… that is registered. "
                "Give the outputs of the steps that used this model."
            )
    return evidence


def metrics_of(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation: its metrics' values, and how many samples there were."""
    found: dict[str, float] = {}
    for name, metric in object_in(evaluation, "metrics").items():
        value = cast("Mapping[str, Any]", metric).get("value") if isinstance(metric, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[str(name)] = value
    samples = evaluation.get("num_samples")
    if isinstance(samples, int) and not isinstance(samples, bool):
        found["num_samples"] = samples
    return found


def numbers_of(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a JSON object, nested ones by path (`mse.value`). Its texts are left out, and so is all else that
    is no number."""
    found: dict[str, float] = {}
    for name, value in report.items():
        if isinstance(value, Mapping):
            inner = numbers_of(cast("Mapping[str, Any]", value))
            found |= {f"{name}.{path}": number for path, number in inner.items()}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return found


def lineage_of(files: Mapping[str, str], evidence: Evidence) -> dict[str, str]:
    """The lineage of a model, as hashes.

    Args:
        files: those of the model, name -> SHA-256.

    Returns:
        `data` of the training's, `test-data` of the evaluation's manifest; `report` of the evaluation; `continues` of
        the files of the earlier model that the training went on from; `config` of recipe or module and settings; `code`
        of the modules that lie in the model's code/ folder. What is not known is left out.
    """
    description = evidence.description or {}
    found = {
        "data": object_in(description, "data").get("content_hash"),
        "test-data": object_in(evidence.evaluation or {}, "data").get("content_hash"),
        REPORT: report_hash(evidence.evaluation) if evidence.evaluation else None,
        CONTINUES: object_in(description, CONTINUES).get("content_hash"),
    }
    names = ("recipe", "recipe_options", "precision", "training", "answers")
    config = {name: description[name] for name in names if name in description}
    if options := object_in(object_in(description, "table"), "options"):
        config["options"] = options
    if config:
        text = json.dumps(config, sort_keys=True, separators=(",", ":"))
        found["config"] = hashlib.sha256(text.encode()).hexdigest()
    code = {name: checksum for name, checksum in files.items() if name.startswith("code/")}
    if code:
        found["code"] = hash_of_files(code)
    return {name: value for name, value in found.items() if isinstance(value, str) and value}


def decision_texts(decision: Mapping[str, Any]) -> dict[str, str]:
    """The decision as short texts for a version's properties."""
    difference, against = object_in(decision, "difference"), decision.get(AGAINST)
    none = NO_CHAMPION if "champion" in decision else None
    said = {
        "verdict": decision.get("verdict"),
        "metric": decision.get("metric"),
        "champion": object_in(decision, "champion").get("version", none),
        REPORT: decision.get(REPORT),
        AGAINST: as_text(against) if isinstance(against, str) else None,
        **{name: difference.get("value" if name == "difference" else name) for name in ("difference", "low", "high")},
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def properties_of(content_hash: str, lineage: Mapping[str, str], decision: Mapping[str, Any] | None) -> dict[str, str]:
    """CustomerMetadataProperties, without what the service would not take for one."""
    named = {model_package.CONTENT_HASH: content_hash}
    named |= {model_package.LINEAGE + name: value for name, value in lineage.items()}
    named |= {model_package.DECISION + name: value for name, value in decision_texts(decision or {}).items()}
    return _kept(named)


def card_of(artifact: str, evidence: Evidence, numbers: Mapping[str, float]) -> Card:
    """The model card. The service takes 100,000 characters, so of a longer one is left out, as far as is needed: parts
    of the decision record, which lies whole beside the model; numbers of single classes; what evaluation.json says.

    Raises:
        InputError: it is too long all the same.
    """
    overall = {name: number for name, number in numbers.items() if "_class_" not in name}
    records = list(_shorter(evidence.decision))
    tries = [(record, numbers) for record in records[:_MORE_THAN_CLASSES]] + [(record, overall) for record in records]
    tries_of_all = [(evidence._replace(decision=record), kept) for record, kept in tries]
    problem: InputError | None = None
    for known, kept in [*tries_of_all, (Evidence(evidence.description, None, records[-1]), overall)]:
        card = model_card(
            artifact=artifact,
            model=known.description,
            evaluation=known.evaluation,
            decision=known.decision,
            numbers=kept,
        )
        try:
            as_package_card(card)
        except InputError as error:
            problem = error
        else:
            return card
    assert problem is not None
    raise problem


def model_record(
    files: Mapping[str, str],
    evidence: Evidence,
    numbers: Mapping[str, float],
    *,
    artifact: str,
    image: str = "",
    instance_types: Iterable[str] = (),
    quality: str = "",
    data_check: str = "",
) -> ModelRecord:
    """Make the record of a model to register.

    Args:
        files: those of the model, name -> SHA-256.
        numbers: the version's metrics.
        artifact: the URI of the model's archive or folder; only s3:// and https:// can be deployed.
        image: of the container that serves it.
        instance_types: where it may be deployed and transform; "" leaves that open.
        quality: the URI of the model quality report.
        data_check: the URI of the report of the check of its data.
    """
    described = evidence.description or {}
    recipe = described.get("recipe") or estimator_of(described)
    serving = None
    if _DATA_URL.fullmatch(artifact):
        # The serving container's entry point; see the model's code/ folder.
        program = {"SAGEMAKER_PROGRAM": "inference.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"}
        if described.get("framework") == "tensorflow":
            program = dict(model_package.SERVING_OF_TENSORFLOW)
        serving = Serving(
            image=image,
            environment=program if INFERENCE_FILE in files else {},
            content_types=CONTENT_TYPES,  # what its input_fn reads
            response_types=CONTENT_TYPES,
            instance_types=tuple(instance_types),
        )
    return ModelRecord(
        artifact=artifact,
        description=f"{recipe}, trained by drivetrain" if isinstance(recipe, str) and recipe else "",
        serving=serving,
        quality=quality,
        baselines=f"{data_check.rstrip('/')}/{model_package.MONITOR}" if data_check else "",
        lineage=_kept(lineage_of(files, evidence)),
        decision=_kept(decision_texts(evidence.decision or {})),
        properties={model_package.CONTENT_HASH: hash_of_files(files)},
        card=card_of(artifact, evidence, numbers),
    )


def _kept(texts: Mapping[str, str]) -> dict[str, str]:
    """Without what the service would not take for a property."""
    return {name: value for name, value in texts.items() if _PROPERTY.fullmatch(value)}


def _shorter(decision: Mapping[str, Any] | None) -> Iterator[dict[str, Any] | None]:
    """A decision record, and then with less and less of what grows with classes and slices."""
    if decision is None:
        yield None
        return
    short = dict(decision)
    yield dict(short)
    for side in ("candidate", "champion"):  # their metrics stand beside it
        if isinstance(short.get(side), Mapping):
            short[side] = {name: value for name, value in short[side].items() if name != "metrics"}
    yield dict(short)
    short.pop("differences", None)
    yield dict(short)
    short.pop("regressions", None)
    short.pop("floors", None)
    yield dict(short)
    if "data" in short:
        short["data"] = {name: value for name, value in object_in(short, "data").items() if name != "slices"}
    if isinstance(why := short.get("why"), list):
        short["why"] = [str(reason)[:_MOST_OF_A_REASON] for reason in cast("list[Any]", why)[:_MOST_REASONS]]
    yield short


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no finite number")
