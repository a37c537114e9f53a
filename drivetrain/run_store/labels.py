"""Labels that users give a run: its name, its note, its tags.

Secrets in notes and tags are masked; a name stands for its run, so one with a secret in it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError, did_you_mean, shown
from drivetrain.base.masking import Masking, without_secrets
from drivetrain.run_store.reader import BEGINS, Ledger
from drivetrain.run_store.run_values import enter_values, values_of
from drivetrain.run_store.writer import LedgerWriter

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home

MAX_TEXT = 256
MAX_NOTE = 4_000
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,79}")


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags, secrets masked.

    Raises:
        UserError: a name or a value that no tag can have.
    """
    for name, text in tags.items():
        if not isinstance(name, str) or not _TAG.fullmatch(name):  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Tag {shown(name)}: a name is up to 64 letters, digits and any of _ . : / -")
        if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT or not text.isprintable():  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Tag {name} is {shown(text)}. Give a printable text of at most {MAX_TEXT} characters.")
        _refuse_secret("A tag", name)
    masking = Masking()
    return {name: masking.message(masking({name: text})[name]) for name, text in tags.items()}


def checked_name(name: str) -> str:
    """
    Raises:
        UserError: what no run can be called.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "latest":  # type: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"A run cannot be called {shown(name)}. A name is up to 80 letters, digits and any of _ . : / -, but not "
            "'latest'."
        )
    _refuse_secret("A run", name)
    return name


def _refuse_secret(what: str, name: str) -> None:
    if (masked := without_secrets(name)) != name:
        raise UserError(f"{what} cannot be called {masked}: `***` stands for what looks like a secret. Give another.")


def change_tags(home: Home, execution: str, tags: Mapping[str, str], removed: tuple[str, ...] = ()) -> str:
    """Give a run tags, and take others away; gives its id.

    Raises:
        UserError: there is no such run; a tag that cannot be given, or is to be taken away and is not there.
    """
    tags = checked_tags(tags)
    id = _found(home, execution)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        there = values_of(ledger, [id])[id].get("tag", {})
        for name in removed:
            if name not in there:
                raise UserError(f"Run {id} has no tag {name!r}. {did_you_mean(name, there)}")
            db.execute("DELETE FROM run_values WHERE execution = ? AND kind = 'tag' AND name = ?", (id, name))
        enter_values(db, id, [("tag", name, text) for name, text in tags.items()])
    return id


def change_name(home: Home, execution: str, name: str | None) -> str:
    """Call a run something, or nothing; gives its id.

    Raises:
        UserError: there is no such run; a name that no run can have, another one has, or an id begins with.
    """
    if name is not None:
        checked_name(name)
    id = _found(home, execution)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        if name is not None:
            if taken := ledger.rows("SELECT id FROM executions WHERE name = ? AND id != ?", name, id):
                raise UserError(f"Run {taken[0][0]} is called {name!r} already. Give another name, or rename that one.")
            if meant := ledger.rows(f"SELECT id FROM executions WHERE {BEGINS}", name):
                raise UserError(f"{name!r} is the beginning of the id of run {meant[0][0]}. Give another name.")
        db.execute("UPDATE executions SET name = ? WHERE id = ?", (name, id))
    return id


def change_note(home: Home, execution: str, note: str | None) -> str:
    """Write something about a run, secrets masked, or nothing; gives its id.

    Raises:
        UserError: there is no such run; the note is too long.
    """
    if note is not None and not isinstance(note, str):  # type: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"A note is a text. Given: {shown(note)}.")
    if note is not None and len(note) > MAX_NOTE:
        raise UserError(f"The note has {len(note):,} characters. Give at most {MAX_NOTE:,}.")
    id = _found(home, execution)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        db.execute("UPDATE executions SET note = ? WHERE id = ?", (without_secrets(note) if note else None, id))
    return id


def _found(home: Home, execution: str) -> str:
    with Ledger(home) as ledger:
        return ledger.execution(execution).id
