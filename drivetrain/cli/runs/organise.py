"""`drivetrain runs tag|name|note|delete|prune`: name runs, and throw them away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from drivetrain.base.formatting import count, size
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Execution, Home, Json
from drivetrain.cli.options import tags as read_tags
from drivetrain.telling.terminal import say, say_json

Yes = Annotated[bool, Option("--yes", "-y", help="Delete; without it, only show what would go.")]
MOST_LISTED = 20


def add_to(app: App) -> None:
    """Add these commands to those of `drivetrain runs`."""
    for command in (tag, name, note, delete, prune):
        app.command()(command)


def tag(
    execution: Execution,
    tags: Annotated[list[str] | None, Argument(metavar="NAME=TEXT...", help="Tags to add.")] = None,
    remove: Annotated[list[str] | None, Option("--remove", metavar="NAME", help="A tag to remove. Repeatable.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Tag a run, to find it again; show its tags.

    \b
    Examples:
      drivetrain runs tag latest team=vision stage=candidate
      drivetrain runs tag latest --remove stage
      drivetrain runs list --where "tag.team = vision"
    """
    from drivetrain.run_store.labels import change_tags
    from drivetrain.run_store.reader import Ledger

    place = local_home(home)
    given = read_tags(tags)
    if given or remove:
        execution = change_tags(place, execution, given, tuple(remove or ()))
    with Ledger(place) as ledger:
        run = ledger.run(execution)
    if as_json:
        say_json({"execution": run.id, "tags": run.tags})
    else:
        say(f"{run.id}: " + (", ".join(f"{key}={text}" for key, text in run.tags.items()) or "no tags"))


def name(
    execution: Execution,
    name: Annotated[str | None, Argument(metavar="NAME", help="The new name; leave it out to remove the name.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Call a run by a name, which then stands for its id. Named runs are never pruned.

    \b
    Examples:
      drivetrain runs name latest best-of-november
      drivetrain runs show best-of-november
    """
    from drivetrain.run_store.labels import change_name
    from drivetrain.run_store.reader import Ledger

    place = local_home(home)
    with Ledger(place) as ledger:
        row = ledger.execution(execution)
    change_name(place, row.id, name)
    if as_json:
        say_json({"execution": row.id, "name": name, "before": row.name})
    elif name is not None:
        say(f"{row.id} is called {name}" + (f", no longer {row.name}." if row.name not in (None, name) else "."))
    else:
        say(f"{row.id} has no name." if row.name is None else f"{row.id} is no longer called {row.name}.")


def note(
    execution: Execution,
    text: Annotated[str | None, Argument(metavar="TEXT", help="The new note; leave it out to remove the note.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write a note about a run; its page and `runs show` have it.

    \b
    Examples:
      drivetrain runs note latest "warm-up was too short"
    """
    from drivetrain.run_store.labels import change_note
    from drivetrain.run_store.reader import Ledger

    place = local_home(home)
    id = change_note(place, execution, text)
    if as_json:
        with Ledger(place) as ledger:
            say_json({"execution": id, "note": ledger.execution(id).note})
        return
    say(f"The note of {id} is kept." if text else f"{id} has no note now.")


def delete(
    executions: Annotated[
        list[str], Argument(metavar="ID...", help="Runs: ids, names, beginnings of ids, or `latest`.")
    ],
    yes: Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Remove runs and what they wrote. Shows what it would free; --yes does it.

    Runs that a registered model, another run, or a running one needs are kept.

    \b
    Examples:
      drivetrain runs delete 1ee52c 78767a
      drivetrain runs delete 1ee52c 78767a --yes
    """
    _remove(home, executions, yes=yes, as_json=as_json)


def prune(
    keep: Annotated[int, Option("--keep", min=0, metavar="N", help="The newest N of each pipeline stay.")],
    older_than: Annotated[
        str | None, Option("--older-than", metavar="AGE", help="Only runs older than that: 12h, 30d, 2w.")
    ] = None,
    pipeline: Annotated[str | None, Option("--pipeline", "-p", metavar="NAME", help="Only its runs.")] = None,
    yes: Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Remove old runs and what they wrote. Shows what it would free; --yes does it.

    Runs that have a name, or that a registered model, another run, or a running one needs, are kept.

    \b
    Examples:
      drivetrain runs prune --keep 20
      drivetrain runs prune --keep 5 --older-than 30d --yes
    """
    from drivetrain.run_store.removing import seconds_of, to_prune

    age = 0.0 if older_than is None else seconds_of(older_than)
    chosen, named = to_prune(local_home(home), keep=keep, older_than_s=age, pipeline=pipeline)
    _remove(home, chosen, named, yes=yes, as_json=as_json)


def _remove(
    home: Any, executions: list[str], named: Mapping[str, str] | None = None, *, yes: bool, as_json: bool
) -> None:
    """Remove runs, or show what would go; `named` are others that stay, each with the reason."""
    from drivetrain.cli.outcome import listed
    from drivetrain.run_store.removing import plan_removal, remove

    place = local_home(home)
    removal = plan_removal(place, executions)
    if yes:
        remove(place, removal)
    kept = {**(named or {}), **removal.kept}
    if as_json:
        say_json(
            {
                "removed": yes,
                "runs": [row.id for row in removal.runs],
                "kept": kept,
                "objects": len(removal.objects),
                "bytes": removal.bytes,
            }
        )
        return
    if removal.runs:
        say(listed(removal.runs[:MOST_LISTED]))
        if len(removal.runs) > MOST_LISTED:
            say(f"... and {len(removal.runs) - MOST_LISTED:,} more")
        say()
    for id, why in list(kept.items())[:MOST_LISTED]:
        say(f"{id} stays: {why}.")
    if len(kept) > MOST_LISTED:
        say(f"{len(kept) - MOST_LISTED:,} more stay.")
    freed = f"{count(len(removal.runs), 'run')}, {size(removal.bytes)}"
    if not removal.runs:
        say("Nothing to remove." if place.ledger.exists() else place.nothing_run())
    elif yes:
        say(f"Removed {freed}.")
    else:
        say(f"Would remove {freed}. Nothing is removed yet: add --yes.")
