"""`drivetrain models`: the registered models, and the decision on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drivetrain.pipelines.cli.groups import CommandGroup, new_app
from drivetrain.pipelines.cli.options import Home, Json

if TYPE_CHECKING:
    from drivetrain.components.registries import ModelVersion, Registry

app = new_app(cls=CommandGroup, no_args_is_help=True, help="Look at registered models, approve or reject them.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The model group.")]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="A number, `latest`, or `approved`.")]
Reason = Annotated[str | None, typer.Option("--reason", "-m", help="Why; kept with the decision.")]


@app.command(name="list")
def list_(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The versions of this group.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List model groups, or the versions of one."""
    from drivetrain.pipelines.cli.terminal import say, say_json, table
    from drivetrain.pipelines.report.words import approval_words, moment, number

    registry = _registry(home)
    if group is not None:
        versions = registry.versions(group)
        if as_json:
            say_json([_as_json(version) for version in versions])
            return
        rows = [
            [
                str(item.version),
                approval_words(item.status),
                moment(item.created_at),
                item.execution or "",
                ", ".join(f"{name} {number(value)}" for name, value in _overall(item)),
            ]
            for item in versions
        ]
        styles = [["bold", item.status, "", "", ""] for item in versions]
        say(table(("version", "status", "registered", "execution", "numbers"), rows, styles=styles))
        return
    groups = registry.groups()
    if as_json:
        say_json(
            [
                {"group": item.name, "versions": item.num_versions, "approved": item.approved}
                | {"latest": _as_json(item.latest)}
                for item in groups
            ]
        )
    elif not groups:
        say("No model has been registered yet. A run that succeeds registers one: drivetrain run retraining")
    else:
        rows = [
            [
                item.name,
                str(item.num_versions),
                f"{item.latest.version} ({approval_words(item.latest.status)})",
                "–" if item.approved is None else str(item.approved),
                moment(item.latest.created_at),
            ]
            for item in groups
        ]
        styles = [["bold", "", item.latest.status, "", ""] for item in groups]
        say(table(("group", "versions", "latest", "approved", "registered"), rows, styles=styles))


@app.command()
def show(group: Group, version: Version = "latest", home: Home = None, as_json: Json = False) -> None:
    """Show a version: status, numbers, where it came from.

    \b
    Examples:
      drivetrain models show retraining
      drivetrain models show retraining 3
      drivetrain models show retraining approved --json
    """
    from drivetrain.pipelines.cli.terminal import paint, say, say_json
    from drivetrain.pipelines.report.words import approval_words, moment, number, printable

    registry = _registry(home)
    found = registry.version(group, version)
    if as_json:
        say_json(_as_json(found))
        return
    facts = [
        ("status", paint(approval_words(found.status), found.status) + (f" ({found.reason})" if found.reason else "")),
        ("registered", moment(found.created_at)),
        ("execution", printable(found.execution or "–")),
        ("model", printable(_model_uri(found))),
        ("content", found.content_hash),
        ("arn", found.arn),
        *((name, number(value)) for name, value in found.metrics.items()),
    ]
    say(paint(f"{found.group} version {found.version}", "bold"))
    widest = max(len(name) for name, _ in facts)
    for name, value in facts:
        say(f"  {printable(name).ljust(widest)}  {value}")
    if found.status == "PendingManualApproval":
        say(f"\nDecide: drivetrain models approve {found.group} {found.version}")


@app.command()
def approve(
    group: Group, version: Version = "latest", reason: Reason = None, home: Home = None, as_json: Json = False
) -> None:
    """Approve a version.

    \b
    Example:
      drivetrain models approve retraining 3 -m "better on all classes"
    """
    _decide(group, version, "Approved", reason, home, as_json)


@app.command()
def reject(
    group: Group, version: Version = "latest", reason: Reason = None, home: Home = None, as_json: Json = False
) -> None:
    """Reject a version."""
    _decide(group, version, "Rejected", reason, home, as_json)


def _decide(group: str, version: str, status: str, reason: str | None, home: Path | None, as_json: bool) -> None:
    import getpass

    from drivetrain.pipelines.cli.terminal import paint, say, say_json
    from drivetrain.pipelines.report.words import approval_words

    registry = _registry(home)
    before = registry.version(group, version)
    try:
        by = getpass.getuser()
    except (KeyError, OSError):
        by = None  # a container without a name for its user
    after = registry.set_status(group, before.version, status, reason=reason, by=by)
    if as_json:
        say_json(_as_json(after))
        return
    version_name = paint(f"{after.group} version {after.version}", "bold")
    was = f" (was {approval_words(before.status)})" if before.status != after.status else " already"
    say(f"{version_name} is {paint(approval_words(after.status), after.status)}{was}")


def _registry(home: Path | None) -> Registry:
    from drivetrain.components.registries import open_registry
    from drivetrain.pipelines.cli.home import local_home

    return open_registry(f"local:{local_home(home).ledger}")


def _overall(version: ModelVersion) -> list[tuple[str, float]]:
    """The numbers of a version without those of single classes."""
    return [(name, value) for name, value in version.metrics.items() if "_class_" not in name][:4]


def _model_uri(version: ModelVersion) -> str:
    containers = version.package.get("InferenceSpecification", {}).get("Containers", [])
    return str(containers[0].get("ModelDataUrl", "–")) if containers else "–"


def _as_json(version: ModelVersion) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(version)
