"""`drivetrain data`: the data sets in a folder, and their versions by date."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import FAILED, InputError
from drivetrain.base.formatting import moment, size
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.local.data_alarms import alarms
from drivetrain.cli.local.data_labels import labels
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json, table

if TYPE_CHECKING:
    from drivetrain.data.versions import Version

app = App(help="Look at data sets, their versions, rules and alarms.")
app.command()(alarms)
app.command()(labels)

# `diff` leaves out columns in which a smaller share of the rows moved.
_SHOWN = 0.01

Folder = Annotated[Path, Argument(metavar="FOLDER", help="A data set, or a folder above some.", show_default=False)]


@app.command(name="list")
def list_(folder: Folder = Path(), as_json: Json = False) -> None:
    """List data sets with their versions, the newest first.

    \b
    Examples:
      drivetrain data list build
      drivetrain data list build/train --json
    """
    from drivetrain.data.accepted import accepted_version
    from drivetrain.data.versions import sets_below, versions

    found = [version for each in sets_below(folder) for version in versions(each)]
    if as_json:
        say_json([_facts(version) for version in found])
        return
    rows = [
        [
            str(version.folder),
            moment(version.written)
            + (" (current)" if version.is_current else "")
            + (" (accepted)" if version.name == accepted_version(version.folder) else ""),
            f"{version.manifest.rows:,}",
            size(version.manifest.bytes),
            version.name,
        ]
        for version in found
    ]
    say(table(("data set", "written", "rows", "size", "version"), rows))


@app.command()
def path(
    folder: Folder,
    at: Annotated[
        str | None,
        Option("--at", metavar="WHEN", help="The version of a date or time, or the beginning of its hash."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the folder of one version, which any command takes for data.

    A date means the version that was current at its end; without --at it is the current one.

    \b
    Examples:
      drivetrain data path build/train --at 2026-11-25
      drivetrain submit prepare-data --set raw=$(drivetrain data path build/orders --at 3f6c) --set key=id --out build
    """
    from drivetrain.data.versions import sets_below, version_at, versions

    sets = sets_below(folder)
    if len(sets) > 1:
        raise InputError(f"{folder} holds {len(sets)} data sets. Give one: {', '.join(map(str, sets[:10]))}.")
    found = versions(sets[0])
    version = next(each for each in found if each.is_current) if at is None else version_at(found, at)
    if as_json:
        say_json(_facts(version))
    else:
        say(str(version.path))


@app.command()
def accept(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="The folder above the sets of a run, or a table.")],
    why: Annotated[str, Option("--why", metavar="TEXT", help="The reason, which is kept.")] = "",
    at: Annotated[
        str, Option("--at", metavar="WHEN", help="The version of a date or time; the current one unless given.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Accept versions of data sets: increments go on from them.

    An accepted version is never removed, and later ones are passed over until they are accepted, too.

    \b
    Examples:
      drivetrain data accept build --why "the new sensor is right"
      drivetrain data accept build --at 2026-11-25
    """
    from drivetrain.data.accepted import ACCEPTED_FILE
    from drivetrain.data.accepted import accept as accept_sets
    from drivetrain.operations.models import login

    content = accept_sets(folder, who=login() or "unknown", why=why, at=at)
    if as_json:
        say_json(content)
    else:
        named = ", ".join(f"{side or folder.name} {entry['version']}" for side, entry in content["sets"].items())
        say(f"{folder / ACCEPTED_FILE}: {named}")


@app.command()
def diff(
    first: Annotated[Path, Argument(metavar="A", help="A data set, or a version of it.", show_default=False)],
    second: Annotated[Path, Argument(metavar="B", help="A later one.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show rows that differ, by key, and columns that moved.

    \b
    Examples:
      drivetrain data diff build/train/3f6c0a41b2d7 build/train
      drivetrain data diff build/train build/test --json
    """
    from dataclasses import asdict

    from drivetrain.data.differences import compare_rows
    from drivetrain.data.profile import WHOLE, profile_of
    from drivetrain.decision.data_baseline import movements

    rows = compare_rows(first, second)
    before, after = profile_of(first, WHOLE), profile_of(second, WHOLE)
    types = [dict(zip(each.columns, each.types, strict=True)) for each in (before, after)]
    other = {name: [each.get(name) for each in types] for name in {**types[0], **types[1]}}
    other = {name: each for name, each in other.items() if each[0] != each[1]}
    columns = movements(before, after)
    if as_json:
        say_json({"rows": asdict(rows), "types": other, "columns": [asdict(each) for each in columns]})
        return
    for kind in ("added", "removed", "changed"):
        some = ", ".join(map(str, rows.keys[kind]))
        number = getattr(rows, kind)
        say(f"{number:,} rows {kind}{f', such as {some}' if some else ''}")
    say(f"{rows.equal:,} rows are equal")
    for name, (old, new) in other.items():
        say(f"column {name}: {old or 'not there'} before, {new or 'not there'} now")
    moved = [each for each in columns if max(each.moved or 0.0, _apart(each.nulls)) >= _SHOWN]
    if not moved:
        say(f"No column moved by {_SHOWN:.0%} or more.")
        return
    cells = [
        [
            *(each.column, "" if each.moved is None else f"{each.moved:.1%}"),
            " -> ".join("" if share is None else f"{share:.1%}" for share in each.nulls),
            "" if None in each.means else " -> ".join(f"{mean:.6g}" for mean in each.means),
        ]
        for each in moved
    ]
    say(table(("column", "moved", "empty", "mean"), cells))


@app.command()
def show(
    folder: Folder,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write a page (.html) with histograms there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the columns of data sets, their empty cells, and first rows.

    \b
    Examples:
      drivetrain data show build/train
      drivetrain data show build -o data.html
    """
    from dataclasses import asdict

    from drivetrain.data.differences import first_rows
    from drivetrain.data.profile import WHOLE, profile_of
    from drivetrain.data.versions import sets_below
    from drivetrain.telling.content.datasets import read_dataset

    if output is not None and output.suffix != ".html":
        raise InputError(f"--output {output}: give a file that ends in .html.")
    places = sets_below(folder)
    sets = [found for place in places if (found := read_dataset(place.parent.name, place))]
    together = {place.name: profile_of(place, WHOLE).null_together for place in places}
    samples = {place.name: first_rows(place) for place in places}
    if output is not None:
        from drivetrain.base.files import write_text
        from drivetrain.telling.page.data_page import data_page

        write_text(output, data_page(folder.resolve().name, sets, together, samples))
    if as_json:
        say_json([{**asdict(one), "null_together": together[one.name], "sample": samples[one.name]} for one in sets])
        return
    for one in sets:
        say(f"{one.name}: {one.rows:,} rows, {size(one.bytes)}, content {one.content}")
        if one.leaks:
            say(f"  {one.leaked_rows or 0:,} of its rows are in train, too")
        for group in together[one.name]:
            say(f"  empty in the same rows: {', '.join(group)}")
        cells = [
            [each.name, each.type, *map(_cell, (each.nulls, each.distinct, each.low, each.mean, each.high))]
            for each in one.columns
        ]
        say(table(("column", "type", "empty", "different", "least", "mean", "greatest"), cells))
    if output is not None:
        say(f"The page is in {output}")


def _cell(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:,.6g}"


def _apart(shares: Sequence[float | None]) -> float:
    before, after = (share or 0.0 for share in shares)
    return abs(after - before)


@app.command()
def rules(
    sets: Annotated[list[Path], Argument(metavar="SET...", help="Prepared sets that are known to be good.")],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the rules there.")] = None,
    as_json: Json = False,
) -> None:
    """Suggest rules for rows from sets that are known to be good.

    Each line says in a comment what it is made from. Review the file, then give it to prepare_data or `data check`.

    \b
    Examples:
      drivetrain data rules build/train build/test -o rules.yaml
    """
    import json

    from drivetrain.authoring.plain_yaml import load_yaml
    from drivetrain.base.files import write_text
    from drivetrain.data.manifest import Manifest
    from drivetrain.data.versions import sets_below
    from drivetrain.operations.row_rules import suggested

    found = [each for folder in sets for each in sets_below(folder)]
    text = suggested([Manifest.read(folder, checksums=False) for folder in found])
    if as_json:
        text = json.dumps(load_yaml(text, "rules"), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        say(text.rstrip("\n"))
    else:
        write_text(output, text)


@app.command()
def check(
    folder: Annotated[Path, Argument(metavar="SET", help="A prepared set, or a folder or file of rows.")],
    rules_file: Annotated[Path, Argument(metavar="RULES", help="A file of rules, YAML or JSON.")],
    tables: Annotated[
        Path | None, Option("--tables", metavar="FOLDER", help="The tables that rules refer to by found_in.")
    ] = None,
    night: Annotated[str | None, Option("--night", metavar="TIME", help="The time that rules mean by night.")] = None,
    as_json: Json = False,
) -> int:
    """Check rows by rules; the exit code is 1 where one fails.

    \b
    Examples:
      drivetrain data check build/train rules.yaml
      drivetrain data check raw rules.yaml --tables lookups --json
    """
    from drivetrain.authoring.row_rules import read_rules
    from drivetrain.operations.row_rules import judged

    judge = judged(folder, read_rules(rules_file), tables=tables, night=night)
    broken = list(judge.broken())
    if as_json:
        entries = [{"text": text, "fails": fails} for text, fails in broken]
        say_json({"rows": judge.rows, "rules": judge.entries(), "broken": entries})
    else:
        rows = [
            [each["column"], each["rule"], each["then"], f"{each['rows']:,}", f"{100 * each['share']:.3g} %"]
            for each in judge.entries()
        ]
        say(table(("column", "rule", "then", "rows", "share"), rows))
        for text, fails in broken:
            say(f"{'failed' if fails else 'warning'}: {text}")
    return FAILED if any(fails for _, fails in broken) else 0


def _facts(version: Version) -> dict[str, Any]:
    manifest = version.manifest
    return {
        "folder": str(version.folder),
        "path": str(version.path),
        "version": version.name,
        "content_hash": manifest.content_hash,
        "written": version.written,
        "is_current": version.is_current,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "key": manifest.key,
        "label": manifest.label,
    }
