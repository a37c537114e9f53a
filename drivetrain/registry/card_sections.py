"""The whole model card of a registered version, for people: what it is, was made of and reaches, and how it is served.

    as_markdown(open_registry("local:.drivetrain/ledger.db").version("digits"))

It is put together from what the registry keeps of the version, so every registry has it; what is not known is left
out. drivetrain/report/page/card_page.py makes the same sections a page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from drivetrain.base.formatting import approval_words
from drivetrain.base.json_text import as_list, as_object
from drivetrain.registry.binding import AGAINST
from drivetrain.registry.model_card import (
    COLUMN,
    HEALTH,
    NOTE,
    RUNS_CODE,
    SLICE,
    TABLE,
    TRAINED_BY_OTHERS,
    TRAINED_BY_US,
)
from drivetrain.registry.registry import ModelVersion

MAX_METRICS, MAX_SETTINGS, MAX_LINES, MAX_CHARACTERS = 100, 200, 50, 1_000
_OWN = ("intended_uses", "business_details", "additional_information")


NO_DECISION = "No decision: this version was not compared with a champion, so nothing binds its approval."


class Section(NamedTuple):
    """A part of the card: sentences, then a table, then commands; each may be empty."""

    title: str
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    commands: tuple[str, ...] = ()
    bars: tuple[tuple[str, float], ...] = ()
    """Names and numbers of the rows, where these are to be looked at."""


def title_of(version: ModelVersion) -> str:
    """`digits version 3`."""
    return f"{version.group} version {version.version}"


def sections(version: ModelVersion) -> list[Section]:
    """The sections of the card; sections without content are left out."""
    card = version.card or {}
    found = (
        _overview(version),
        Section("Intended use", head=("", ""), rows=tuple(_authors(card))),
        _data(version, card),
        _configuration(card),
        _metrics(version, card),
        _slices(card),
        _columns(card),
        _health(card),
        _decision(version.decision or {}),
        Section("Lineage", head=("", "hash or run"), rows=_facts(version.lineage.items())),
        _serving(version),
    )
    return [each for each in found if each.lines or each.rows or each.commands]


def as_markdown(version: ModelVersion) -> str:
    """The card as one page of Markdown."""
    lines = [f"# {title_of(version)}", ""]
    for section in sections(version):
        lines += [f"## {section.title}", ""]
        for line in section.lines:
            lines += [_plain(line), ""]
        if section.rows:
            lines += [_row(section.head), _row("---" for _ in section.head), *map(_row, section.rows), ""]
        if section.commands:
            lines += ["```", *section.commands, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _overview(version: ModelVersion) -> Section:
    registered = datetime.fromtimestamp(version.created_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    status = approval_words(version.status) + (f": {version.reason}" if version.reason else "")
    described = version.record.description
    facts = {"Status": status, "Registered": registered, "Artifact": version.artifact, "Content": version.content_hash}
    return Section(
        "Overview",
        (described,) if described and not described.startswith("content ") else (),
        ("", ""),
        _facts(facts.items()),
    )


def _authors(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The author's texts about purpose, risks and caveats."""
    for part in _OWN:
        for name, value in as_object(card.get(part)).items():
            if name != "custom_details" and (text := _text(value)):
                yield name.replace("_", " ").capitalize(), text


def _data(version: ModelVersion, card: Mapping[str, Any]) -> Section:
    rows: list[tuple[str, str]] = []
    job = as_object(as_object(card.get("training_details")).get("training_job_details"))
    rows += [("Training data", _text(each)) for each in as_list(job.get("training_datasets"))]
    if not rows and (known := version.lineage.get("data")):
        rows.append(("Training data", f"content {known}"))
    for details in map(as_object, as_list(card.get("evaluation_details"))):
        rows += [
            (f"Test data: {name.removeprefix('data_').replace('_', ' ')}", _text(value))
            for name, value in as_object(details.get("metadata")).items()
        ]
    if len(rows) < 2 and (known := version.lineage.get("test-data")):
        rows.append(("Test data", f"content {known}"))
    if baselines := version.record.baselines:
        rows.append(("Baselines", baselines))
    return Section("Data", head=("", ""), rows=tuple(rows))


def _configuration(card: Mapping[str, Any]) -> Section:
    training = as_object(card.get("training_details"))
    said = _observed(card)
    job = as_object(training.get("training_job_details"))
    given = [as_object(each) for each in as_list(job.get("user_provided_hyper_parameters"))[:MAX_SETTINGS]]
    rows = tuple((_text(each.get("name")), _text(each.get("value"))) for each in given)
    return Section(
        "Configuration", (said,) if said and (rows or said != TRAINED_BY_OTHERS) else (), ("setting", "value"), rows
    )


def _metrics(version: ModelVersion, card: Mapping[str, Any]) -> Section:
    data = [each for name, found in _groups(card) if not name.startswith(SLICE) for each in found]
    notes = {_text(each.get("name")): _text(each.get("notes")) for each in data}
    overall = {name: value for name, value in version.metrics.items() if "_class_" not in name}
    for name in [name for name in overall if name.endswith("_bound") and name.removesuffix("_bound") in overall]:
        del overall[name]
    rows = tuple((name, f"{value:.6g}", notes.get(name, "")) for name, value in list(overall.items())[:MAX_METRICS])
    more = len(version.metrics) - len(rows)
    lines = (f"Numbers of single classes, and further ones, are in the registry: {more} more.",) if more else ()
    said = (value for _, value in sorted(_details(card, NOTE)))
    return Section("Metrics", (*lines, *said), ("metric", "value", "interval and error"), rows)


def _slices(card: Mapping[str, Any]) -> Section:
    """The slices below each other, with the metrics that all of them have."""
    found = [
        (name.removeprefix(SLICE), {_text(each.get("name")): each.get("value") for each in data})
        for name, data in _groups(card)
        if name.startswith(SLICE)
    ]
    names = [name for name in (found[0][1] if found else ()) if all(name in values for _, values in found)]
    rows = tuple((slice_, *(_number(values[name]) for name in names)) for slice_, values in found)
    return Section("Slices", head=("slice", *names), rows=rows)


def _groups(card: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """The groups of metrics of a card: name, and metrics."""
    for details in map(as_object, as_list(card.get("evaluation_details"))):
        for group in map(as_object, as_list(details.get("metric_groups"))):
            yield _text(group.get("name")), [as_object(each) for each in as_list(group.get("metric_data"))]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else ""


def _columns(card: Mapping[str, Any]) -> Section:
    """How far the columns of a table move the answers."""
    found = [(name, text, text.partition(",")[0]) for name, text in _details(card, COLUMN)]
    known = [(name, text, float(value) if _is_number(value) else 0.0) for name, text, value in found]
    known.sort(key=lambda each: -each[2])
    line = "The mean distance by which a column moves the answer, before the link function (log-odds of classes)."
    return Section(
        "Columns",
        (line,) if known else (),
        ("column", "moves the answer by"),
        tuple((name, text) for name, text, _ in known),
        bars=tuple((name, value) for name, _, value in known),
    )


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?(e[-+]\d+)?", text) is not None


def _details(card: Mapping[str, Any], prefix: str) -> tuple[tuple[str, str], ...]:
    """The custom details whose names begin so, without that beginning."""
    details = as_object(as_object(card.get("additional_information")).get("custom_details"))
    return tuple(
        (name.removeprefix(prefix), _text(value)) for name, value in details.items() if name.startswith(prefix)
    )


def _health(card: Mapping[str, Any]) -> Section:
    failed = _details(card, HEALTH)
    if failed:
        return Section("Health", ("Rules that failed the training:",), ("rule", "what it found"), failed)
    return Section("Health", ("No health rule failed the training.",) if _is_our_training(card) else ())


def _is_our_training(card: Mapping[str, Any]) -> bool:
    """True where `train` or `train_table` made the model: they watch trainings, and write the code that answers."""
    return _observed(card).startswith((TRAINED_BY_US, TABLE))


def _observed(card: Mapping[str, Any]) -> str:
    return _text(as_object(card.get("training_details")).get("training_observations"))


def _decision(decision: Mapping[str, Any]) -> Section:
    if not decision:
        return Section("Decision", (NO_DECISION,))
    why = tuple(_text(line) for line in as_list(decision.get("why"))[:MAX_LINES])
    verdict = _text(decision.get("verdict"))
    rows = {
        name.capitalize(): _text(value)
        for name, value in decision.items()
        if isinstance(value, str | int | float) and name not in ("verdict", "why", "format")
    }
    if against := _text(decision.get(AGAINST)):
        why = (f"Registered {against}", *why)
    return Section("Decision", (*((f"{verdict.capitalize()}.",) if verdict else ()), *why), ("", ""),
                   () if why else _facts(rows.items()))  # fmt: skip


def _serving(version: ModelVersion) -> Section:
    serving = version.record.serving
    rows: dict[str, str] = {}
    if serving is not None:
        rows = {
            "Image": serving.image,
            "Reads": ", ".join(serving.content_types),
            "Answers": ", ".join(serving.response_types),
            "Machines": ", ".join(serving.instance_types) or "any",
            **{f"Variable {name}": value for name, value in serving.environment.items()},
        }
    of = f"{shlex.quote(version.group)} {version.version}"
    commands = [f"drivetrain models fetch {of} --output model    # its files, verified"]
    if _is_our_training(version.card or {}) or version.lineage.get("code"):  # it has code by which it answers
        name = shlex.quote(version.group)
        commands.append(f"drivetrain models predict {name} --version {version.version} --input rows.csv")
    if version.status != "Approved":
        commands.append(f"drivetrain models approve {of}")
    runs_code = RUNS_CODE in _observed(version.card or {})
    lines = (f"{RUNS_CODE} that it brings along. Load it only if you trust who made it.",) if runs_code else ()
    return Section("How to use it", lines, ("", ""), _facts(rows.items()), tuple(commands))


def _facts(facts: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in facts if text)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    """Text that Markdown does not take for HTML."""
    return " ".join(text.split()).replace("<", "&lt;")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(each) for each in cast("list[Any]", value)[:MAX_LINES])
    return "" if value is None or isinstance(value, Mapping) else str(value)[:MAX_CHARACTERS]
