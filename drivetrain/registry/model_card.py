"""A model card in SageMaker's model card schema, made of what training, evaluation and the decision wrote down.

    card = model_card(model=..., evaluation=..., decision=..., metrics=...)
    package["ModelCard"] = as_package_card(card)

Of the schema (https://docs.aws.amazon.com/sagemaker/latest/dg/model-cards.html) it fills what is known: who made the
model and where it lies, hyperparameters, the evaluation with its numbers, what the decision said. Intended uses and
risk are for people to fill in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.json_text import as_list, as_object
from drivetrain.registry.model_package import METRIC_GROUP, metrics
from drivetrain.registry.record import CARD_RECORD

Card = dict[str, Any]

MOST_CHARACTERS = 100_000
HEALTH = "health_"
"""Begins the custom details that say what a health rule found."""
COLUMN = "column_"
"""Begins the custom details that say how far a column of a table moves the answers."""
NOTE = "note_"
"""Begins the custom details that are sentences of an evaluation, and goes on with a number."""
TRAINED_BY_US, TRAINED_BY_OTHERS = "Trained by drivetrain", "Trained by a script of its own."
TABLE = "Table model trained by drivetrain"
RUNS_CODE = "Loading this model runs code"
"""Begins the sentence of a card about a model that answers by a module of the user's own."""
_OURS = "drivetrain."
SLICE = "slice "
"""Begins the name of a group of metrics that are of a slice: `slice plan=basic`."""
_LONG, _SHORT, _MOST_NAME = 2048, 1024, 63
_MOST_SLICES, _METRICS_OF_A_SLICE, _MOST_COLUMNS, _MOST_NOTES = 20, 5, 10, 12
_MOST_HYPERPARAMETERS = 100


def model_card(
    *,
    artifact: str = "",
    model: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    decision: Mapping[str, Any] | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Card:
    """The card.

    Args:
        artifact: where the model lies.
        model: what model.json says.
        evaluation: what evaluation.json says.
        decision: what decision.json says; it is kept whole, and can be read back.
        numbers: the version's metrics, which can be read back.
    """
    card: Card = {"model_overview": {"model_creator": "drivetrain"}}
    if artifact:
        card["model_overview"]["model_artifact"] = [artifact[:_SHORT]]
    if model:
        card["training_details"] = _training(model)
    if evaluation or numbers or decision:
        card["evaluation_details"] = [_evaluation(evaluation or {}, decision or {}, numbers or {})]
    notes = as_list((evaluation or {}).get("notes"))[:_MOST_NOTES]
    custom = {f"{NOTE}{number:02d}": str(each)[:_SHORT] for number, each in enumerate(notes)}
    custom |= {**_health(model or {}), **_columns(model or {}), **(_pieces(decision) if decision else {})}
    if custom:
        card["additional_information"] = {"custom_details": custom}
    return card


def with_metrics(card: Mapping[str, Any] | None, numbers: Mapping[str, float]) -> Card:
    """A card that keeps these numbers, and all that it held before; one that has numbers of ours keeps them."""
    made: Card = dict(card or {})
    if not metrics({"ModelCard": as_package_card(made)}):
        made["evaluation_details"] = [*made.get("evaluation_details", []), _evaluation({}, {}, numbers)]
    return made


def as_package_card(card: Mapping[str, Any]) -> dict[str, str]:
    """The card in CreateModelPackage's words.

    Raises:
        InputError: it is longer than the service takes.
    """
    content = json.dumps(card, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if len(content) > MOST_CHARACTERS:
        raise InputError(
            f"the model card has {len(content):,} characters. The service takes at most {MOST_CHARACTERS:,}. Register "
            "fewer metrics, or evaluate fewer slices."
        )
    return {"ModelCardContent": content, "ModelCardStatus": "Draft"}


def estimator_of(model: Mapping[str, Any]) -> str:
    """The name of the estimator of ours by which a model answers; "" for any other model."""
    answers = model.get("answers")
    return answers.rpartition(".")[2] if isinstance(answers, str) and answers.startswith(_OURS) else ""


def runs_code(module: str) -> str:
    """The sentence of a card about a model that answers by a module of the user's own."""
    return f"{RUNS_CODE}, its module {module!r}."


def _calibrated(told: Mapping[str, Any]) -> str:
    """Sentences about a model's calibration; "" without one."""
    rows, coverage = told.get("rows"), told.get("coverage_promised")
    if not isinstance(rows, int | float):
        return ""
    on = f"on {rows:,.0f} rows of their own"
    if isinstance(coverage, int | float):
        return f" Intervals calibrated {on}: they hold {coverage:.0%} of all new rows, of a group perhaps less."
    before, after = told.get("log_loss_before", "undefined"), told.get("log_loss")
    found = f" Probabilities calibrated {on}: log loss {_short(before)}, then {_short(after)}."
    if costs := as_object(told.get("costs")):
        names = ("false_positive_cost", "false_negative_cost")
        prices = " and ".join(_short(costs.get(name)) for name in names)
        cost, *ends = (_short(told.get(f"threshold_cost{end}")) for end in ("", "_low", "_high"))
        found += (
            f" Threshold {_short(told.get('threshold'))}: the cheapest there if a false positive and a false negative "
            f"cost {prices}; {cost} a row ({' to '.join(ends)})."
        )
    return found


def _short(number: Any) -> str:
    return f"{number:.4g}" if isinstance(number, int | float) else str(number)


def _training(model: Mapping[str, Any]) -> dict[str, Any]:
    answers, estimator = str(model.get("answers", "")), estimator_of(model)
    settings = {**as_object(model.get("training")), **as_object(model.get("recipe_options"))}
    settings |= as_object(as_object(model.get("table")).get("options"))
    if answers:
        libraries = ", ".join(f"{name} {version}" for name, version in as_object(model.get("needs")).items())
        settings = {"task": as_object(model.get("task")).get("kind"), "libraries": libraries, **settings}
    settings = {"recipe": model.get("recipe"), "precision": model.get("precision"), **settings}
    described = [f"{name} {model[name]}" for name in ("recipe", "step") if model.get(name) is not None]
    data = as_object(model.get("data"))
    if (rows := data.get("rows")) is not None:
        described.append(f"{rows} rows")
    by = TRAINED_BY_US
    if estimator:
        described, by = [estimator, *described], TABLE
    observed = f"{by}: {', '.join(described)}." if described else TRAINED_BY_OTHERS
    if answers and not estimator:
        observed = f"{TRAINED_BY_OTHERS} {runs_code(answers)}"
    if continues := as_object(model.get("continues")):
        named = (
            f"{continues.get('group')} version {continues.get('version')}" if "version" in continues else "the model"
        )
        observed += f" Continues {named} (content {str(continues.get('content_hash'))[:12]})"
        observed += f" from step {continues['step']}." if "step" in continues else "."
    observed += _calibrated(as_object(model.get("calibration")))
    for rule, text in as_object(as_object(model.get("health")).get("failed")).items():
        observed += f" Health rule {rule}: {text}."
    known = {"rows": rows, "content": data.get("content_hash"), "reader": data.get("reader")}
    described_data = ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)
    return {
        "training_observations": observed[:_SHORT],
        "training_job_details": {
            **({"training_datasets": [described_data[:_SHORT]]} if described_data else {}),
            "user_provided_hyper_parameters": [
                {"name": str(name)[:255], "value": _text(value)[:255]}
                for name, value in list(settings.items())[:_MOST_HYPERPARAMETERS]
                if value is not None and value != ""
            ],
        },
    }


def _health(model: Mapping[str, Any]) -> dict[str, str]:
    """Health rules that failed the training, with what they found; empty of a healthy one."""
    failed = as_object(as_object(model.get("health")).get("failed"))
    return {f"{HEALTH}{rule}"[:255]: _text(text)[:_SHORT] for rule, text in failed.items()}


def _columns(model: Mapping[str, Any]) -> dict[str, str]:
    """The columns that move the answers of a table's model most."""
    explained = as_object(as_object(model.get("table")).get("explained"))
    moves = {name: move for name, move in as_object(explained.get("moves")).items() if isinstance(move, int | float)}
    ways = {1: ", higher values raise it", -1: ", higher values lower it"}
    said = as_object(explained.get("ways"))
    first = sorted(moves, key=lambda name: -moves[name])[:_MOST_COLUMNS]
    return {f"{COLUMN}{name}"[:255]: f"{moves[name]:.4g}{ways.get(said.get(name, 0), '')}" for name in first}


def _evaluation(
    evaluation: Mapping[str, Any], decision: Mapping[str, Any], numbers: Mapping[str, float]
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "evaluation"}
    said: list[str] = []
    if "num_samples" in evaluation:
        said.append(f"Measured on {evaluation['num_samples']} samples.")
    if decision:
        reasons = " ".join(map(str, as_list(decision.get("why"))))
        said.append(f"Decision: {decision.get('verdict', '')}. {reasons}".strip())
    if said:
        made["evaluation_observation"] = " ".join(said)[:_LONG]
    data = as_object(evaluation.get("data"))
    if data:
        made["metadata"] = {f"data_{name}": _text(value)[:_SHORT] for name, value in data.items() if value is not None}
    details = as_object(evaluation.get("metrics"))
    if numbers:
        made["metric_groups"] = [_group(METRIC_GROUP, dict(sorted(numbers.items())), details), *_slices(evaluation)]
    return made


def _group(name: str, numbers: Mapping[str, float], details: Mapping[str, Any]) -> dict[str, Any]:
    data = [
        {"name": each, "type": "number", "value": value, **_notes(as_object(details.get(each)))}
        for each, value in numbers.items()
    ]
    return {"name": name, "metric_data": data}


def _slices(evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first metrics of each slice, as many slices as a card has room for."""
    found: list[dict[str, Any]] = []
    for each in map(as_object, as_list(evaluation.get("slices"))[:_MOST_SLICES]):
        details = as_object(each.get("metrics"))
        values = {name: as_object(metric).get("value") for name, metric in details.items() if "_class_" not in name}
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        shown = {"num_samples": each.get("num_samples", 0), **dict(list(numbers.items())[:_METRICS_OF_A_SLICE])}
        found.append(_group(f"{SLICE}{each.get('column')}={each.get('value')}"[:_MOST_NAME], shown, details))
    return found


def _notes(metric: Mapping[str, Any]) -> dict[str, str]:
    """The confidence interval and the error bound, where there are such."""
    said: list[str] = []
    low, high, bound = metric.get("low"), metric.get("high"), metric.get("bound")
    if isinstance(low, int | float) and isinstance(high, int | float):
        said.append(f"confidence interval {low:.6g} to {high:.6g}")
    if isinstance(bound, int | float) and bound > 0:
        said.append(f"error at most {bound:.3g}")
    return {"notes": "; ".join(said)} if said else {}


def _pieces(record: Mapping[str, Any]) -> dict[str, str]:
    """The record in pieces that custom details can hold; record.decision_in puts them together."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {f"{CARD_RECORD}{at // 1000 + 1}": text[at : at + 1000] for at in range(0, len(text), 1000)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
