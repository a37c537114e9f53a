"""The registered models, with what decides on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from drivetrain.base.formatting import approval_words, moment, number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import Around, Cell, document, scrolled, section, table
from drivetrain.telling.content import Measured
from drivetrain.telling.content.findings import overall, words

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion

MAX_NUMBERS = 4
MAX_VERSIONS = 50


def registry_page(
    groups: Mapping[str, Sequence[ModelVersion]],
    around: Around,
    address: Callable[[str], str],
    card: Callable[[str, int], str],
    *,
    decides: bool,
    told: str | None = None,
) -> str:
    """The whole page.

    Args:
        groups: the versions of each, the newest first.
        address: of a run's page, by its id.
        card: of a version's card, by its group and number.
        decides: whether versions can be approved and rejected here.
        told: what came of the last decision.
    """
    body: list[Content] = [_group(name, versions, address, card, decides=decides) for name, versions in groups.items()]
    if not body:
        body = [section("No models", el("p", "No model is registered yet."), id="none")]
    said = None
    if told is not None:
        said = el("section", el("p", told, role="status"), class_="told", aria_label="Done")
    return document("Models", el("header", el("h1", "Models")), el("main", said, body, id="content"), around=around)


def _group(
    name: str,
    versions: Sequence[ModelVersion],
    address: Callable[[str], str],
    card: Callable[[str, int], str],
    *,
    decides: bool,
) -> Markup:
    head = ("Version", "Status", *(("Decide",) if decides else ()), "Numbers", "Registered", "Run")
    champion = next((version for version in versions if version.status == "Approved"), None)
    rows = [
        _row(version, address, card(name, version.version), decides=decides, champion=version is champion)
        for version in versions[:MAX_VERSIONS]
    ]
    made = table(head, rows, style="runs versions stacked")
    more = len(versions) - MAX_VERSIONS
    return section(
        name,
        scrolled(made, label=f"Versions of {name}"),
        _roll_back(name) if decides and sum(each.status == "Approved" for each in versions) > 1 else None,
        el("p", f"{more:,} older versions: drivetrain models list {name}") if more > 0 else None,
        id=f"group-{name}",
    )


def _row(
    version: ModelVersion, address: Callable[[str], str], card: str, *, decides: bool, champion: bool
) -> tuple[Content | Cell, ...]:
    numbers = list(overall(Measured(step="", numbers=version.metrics)).items())[:MAX_NUMBERS]
    run = version.lineage.get("execution", "").rpartition("/")[2]
    status = el("span", approval_words(version.status), class_=f"status is-{version.status.lower()}")
    return (
        el("a", version.version, href=card, aria_label=f"Card of version {version.version}"),
        [
            status,
            [" ", el("span", "champion", class_="tag")] if champion else None,
            el("small", el("br"), version.reason) if version.reason else None,
        ],
        *([_decide(version)] if decides else []),
        Cell([el("span", f"{words(name)} {number(value)}", class_="tag") for name, value in numbers], "numbers"),
        Cell(moment(version.created_at), "moment"),
        el("a", el("code", run), href=address(run)) if run else "–",
    )


def _roll_back(group: str) -> Markup:
    button = el("button", "Roll back…", aria_label=f"Roll back {group}")
    return el("form", button, action=f"/models/{quote(group, safe='')}/rollback", class_="decide")


def _decide(version: ModelVersion) -> Markup:
    what = f"{version.group} version {version.version}"
    buttons = [
        el("button", text, name="status", value=status, aria_label=f"{text} {what}", class_=kind)
        for text, status, kind in (("Approve", "Approved", "main"), ("Reject", "Rejected", "bad"))
        if status != version.status
    ]
    return el(
        "form",
        el("input", name="reason", placeholder="Reason (optional)", aria_label=f"Reason for {what}", maxlength=500),
        buttons,
        el("input", type="hidden", name="group", value=version.group),
        el("input", type="hidden", name="version", value=version.version),
        action="/models",
        method="post",
        class_="decide",
    )
