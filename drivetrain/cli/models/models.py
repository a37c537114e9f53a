"""`drivetrain models`: the registered models, and the decision on them, in any registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import approval_words, count, moment, number, printable
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.models import predict, version_files
from drivetrain.cli.models.registry import NONE_GIVEN, Group, RegistryOptions, Version
from drivetrain.cli.options import Json
from drivetrain.operations.models import login
from drivetrain.telling.terminal import paint, say, say_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drivetrain.registry.approvers import Approval
    from drivetrain.registry.registry import ModelVersion

app = App(help="Look at registered models, approve or reject them.")

Against = Annotated[
    str,
    Option("--against-decision", metavar="REASON", help="The reason to act against the decision; recorded."),
]
By = Annotated[str | None, Option("--by", metavar="NAME", help="Who decides; recorded with the login, not verified.")]
Reason = Annotated[str | None, Option("--reason", "-m", metavar="TEXT", help="The reason; recorded with the decision.")]


@app.command(name="list")
def list_(
    group: Annotated[str | None, Argument(metavar="GROUP", help="The versions of this group.")] = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """List model groups, or the versions of one."""
    models = where.opened()
    if group is not None:
        versions = models.versions(group)
        champion = next((version for version in versions if version.status == "Approved"), None)
        if as_json:
            from drivetrain.cli.models.version_text import version_json

            say_json([version_json(version) | {"champion": version is champion} for version in versions])
            return
        rows = [
            [
                str(item.version),
                approval_words(item.status) + (", champion" if item is champion else ""),
                moment(item.created_at),
                item.execution or "",
                ", ".join(f"{name} {number(value)}" for name, value in _overall(item)),
            ]
            for item in versions
        ]
        styles = [["bold", item.status, "", "", ""] for item in versions]
        say(table(("version", "status", "registered", "execution", "numbers"), rows, styles=styles))
        return
    groups = models.groups()
    if as_json:
        from drivetrain.cli.models.version_text import version_json

        say_json(
            [
                {"group": item.name, "versions": item.num_versions, "approved": item.approved}
                | {"latest": version_json(item.latest)}
                for item in groups
            ]
        )
    elif not groups:
        home = where.home
        nowhere = "" if home is None or local_home(home).root.exists() else f"There is no folder {home}. "
        say(f"No model has been registered yet. {nowhere}A run that succeeds registers one: drivetrain run retraining")
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
def show(
    group: Group,
    version: Version = "latest",
    card: Annotated[bool, Option("--card", help="Print the card as the registry keeps it instead.")] = False,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Show a version: its status, metrics, decision and origin.

    \b
    Examples:
      drivetrain models show retraining
      drivetrain models show retraining 3 --card
      drivetrain models show retraining approved --json
      drivetrain models show retraining --registry mlflow:http://localhost:5000
    """
    from drivetrain.cli.models.version_text import card_text, version_json, version_text

    models = where.opened()
    found = models.version(group, version)
    if card and not found.card:
        raise UserError(f"{found.group} version {found.version} has no model card.")
    if as_json:
        say_json(found.card if card else version_json(found))
        return
    if card:
        say(card_text(found.card or {}))
        return
    events = models.events(group) if models.keeps_history else []
    say(version_text(found, [event for event in events if event.version == found.version], where.repeated))
    if found.status == "PendingManualApproval":
        say(f"\nDecide: drivetrain models approve {found.group} {found.version}{where.repeated}")


@app.command()
def compare(
    group: Group,
    a: Annotated[str, Argument(metavar="A", help="A version: a number, `latest`, or `approved`.")] = "approved",
    b: Annotated[str, Argument(metavar="B", help="The other version.")] = "latest",
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Show the metrics of two versions side by side.

    \b
    Examples:
      drivetrain models compare retraining
      drivetrain models compare retraining 2 3
    """
    from drivetrain.cli.models.compare import comparison, comparison_text

    models = where.opened()
    one, other = models.version(group, a), models.version(group, b)
    if as_json:
        say_json(comparison(one, other))
    else:
        say(comparison_text(one, other))


@app.command()
def approve(
    group: Group,
    version: Version = "latest",
    reason: Reason = None,
    against: Against = "",
    by: By = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Approve a version: it is the champion from then on.

    The champion is the newest approved version: newer ones that are approved are rejected, as `rollback` does. The
    decision of compare binds: a version that it rejects, or that it compared with another champion than today's, needs
    --against-decision.

    \b
    Examples:
      drivetrain models approve retraining 3 -m "better on all classes"
      drivetrain models approve retraining 4 --against-decision "data was wrong"
    """
    _decide(group, version, "Approved", reason, where, as_json, against=against, by=by)


@app.command()
def reject(
    group: Group,
    version: Version = "latest",
    reason: Reason = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Reject a version."""
    _decide(group, version, "Rejected", reason, where, as_json)


@app.command(name="approvals")
def approvals_(
    group: Group,
    people: Annotated[int | None, Argument(metavar="PEOPLE", help="How many different people must approve.")] = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Show who approved a group's versions, or set how many must.

    \b
    Examples:
      drivetrain models approvals retraining
      drivetrain models approvals retraining 2
    """
    from drivetrain.registry.approvers import approvals, ask_for, needed

    models = where.opened()
    models.version(group)  # is there
    if people is not None:
        ask_for(models, group, people)
    given, asked = approvals(models, group), needed(models, group)
    if as_json:
        say_json({"group": group, "people": asked, "approvals": [each._asdict() for each in given]})
        return
    say(f"{group} asks for {count(asked, 'different person', 'different people') if asked > 1 else 'one person'}")
    if given:
        rows = [[str(each.version), each.at, each.by, "" if each.verified else "not verified"] for each in given]
        say(table(("version", "approved", "by", ""), rows))


@app.command()
def rollback(
    group: Group,
    to: Annotated[
        int | None,
        Option("--to", metavar="VERSION", help="The approved version that is to be the champion again."),
    ] = None,
    reason: Reason = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Go back to the version that was approved before.

    Newer approved versions are rejected, since the newest one that is approved is the champion.

    \b
    Examples:
      drivetrain models rollback retraining -m "wrong at night"
      drivetrain models rollback retraining --to 1
    """
    from drivetrain.registry.approving import earlier_champion

    earlier = earlier_champion(where.opened(), group, to, place=where.repeated)
    _decide(group, str(earlier), "Approved", reason, where, as_json, bound=False)


app.command()(version_files.card)
app.command()(version_files.fetch)
app.command()(predict.predict)


def _decide(
    group: str,
    version: str,
    status: str,
    reason: str | None,
    where: RegistryOptions,
    as_json: bool,
    *,
    against: str = "",
    bound: bool = True,
    by: str | None = None,
) -> None:
    from drivetrain.registry.approvers import approvals, needed
    from drivetrain.registry.approving import make_champion

    models = where.opened()
    before = models.version(group, version)
    user = login()
    by = f"{by} (login {user})" if by and user else by or user
    rejected: list[ModelVersion] = []
    if status == "Approved":
        after, *rejected = make_champion(
            models, group, before.version, reason=reason, by=by, against=against, bound=bound
        )
    else:
        after = models.set_status(group, before.version, status, reason=reason, by=by)
    given = approvals(models, group) if status == "Approved" else []
    given = [each for each in given if each.version == after.version]
    if as_json:
        from drivetrain.cli.models.version_text import version_json

        known = {"approvals": [each._asdict() for each in given]} if given else {}
        say_json({**version_json(after), **known, "rejected_versions": [each.version for each in rejected]})
        return
    version_name = paint(f"{printable(after.group)} version {after.version}", "bold")
    was = f" (was {approval_words(before.status)})"
    if before.status == after.status:
        was = " still" if status != after.status else " already"
    say(f"{version_name} is {paint(approval_words(after.status), after.status)}{was}")
    if status == "Approved" and after.status != "Approved":
        people = len({each.person for each in given})
        say(f"approved by {people} of {needed(models, group)} different people: {_named(given)}")
    elif len({each.person for each in given}) > 1:
        say(f"approved by {_named(given)}")
    for each in rejected:
        say(f"version {each.version}, which was approved, is {paint(approval_words(each.status), each.status)}")


def _named(approvals: Sequence[Approval]) -> str:
    """`ann, bob (not verified)`."""
    return ", ".join(each.by if each.verified else f"{each.by} (not verified)" for each in approvals)


def _overall(version: ModelVersion) -> list[tuple[str, float]]:
    """The first numbers of a version, without those of single classes."""
    from drivetrain.cli.models.version_text import measures_of

    return [(one.name, one.value) for one in measures_of(version).values() if one.per_class is None][:4]
