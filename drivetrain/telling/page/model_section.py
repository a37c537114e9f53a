"""The page's section on the models that a run registered, and their origin."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import approval_words, number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import definitions, place_code, section
from drivetrain.telling.content import Measured, ModelFacts, RunFacts
from drivetrain.telling.content.findings import overall, words

MAX_NUMBERS = 12


def draw(models: Sequence[ModelFacts], run: RunFacts) -> Markup:
    """The versions that a run registered, or found registered."""
    return section("Registered model", [_model(run, model) for model in models], id="model")


def _model(run: RunFacts, model: ModelFacts) -> Markup:
    rows: list[tuple[str, Content]] = [("Status", approval_words(model.status))]
    if model.registered_by and model.registered_by != run.id:
        rows.append(("Registered by", [el("code", model.registered_by), " (the same content, so one version)"]))
    made = next((item.step for item in run.artifacts if item.flow == "output" and item.uri == model.model_uri), "")
    code = run.codes.get(made, run.code_hash)
    rows += [
        ("Model", place_code(model.model_uri) if model.model_uri else None),
        ("Content", el("code", model.content_hash) if model.content_hash else None),
        ("Execution", el("code", run.id)),
        ("Code", el("code", code) if code else None),
    ]
    data = [item for item in run.artifacts if item.flow == "input" and item.from_step is None and item.name != "code"]
    rows += [
        (f"Data of {item.step}", [place_code(item.uri), f" sha256 {item.digest[:12]}…" if item.digest else ""])
        for item in data
    ]
    found = overall(Measured(step="", numbers=model.numbers))
    numbers = [f"{words(name)} {number(value)}" for name, value in found.items()]
    if len(numbers) > MAX_NUMBERS:
        numbers[MAX_NUMBERS:] = [f"{len(numbers) - MAX_NUMBERS:,} more"]
    if numbers:
        rows.append(("Numbers", ", ".join(numbers)))
    return el("div", el("h3", f"{model.group} version {model.version}"), definitions(rows), class_="model")
