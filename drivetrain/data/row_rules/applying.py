"""Row rules in a step that reads a table: before, while and after its rows are read."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch
from drivetrain.data.hash_runs import Scratch
from drivetrain.data.reading import Table
from drivetrain.data.source import Source
from drivetrain.data.version_folder import VersionFolder

if TYPE_CHECKING:  # a step without rules does not wait for what they are made of
    from drivetrain.data.row_rules.declared import RowRules
    from drivetrain.data.row_rules.judging import Judge


@dataclass
class RowRuling:
    """The rules of a step with the folders that they need. Without rules nothing is done."""

    rules: RowRules | None
    folder: Path | None
    tables: Path | None
    night: str | None
    _judge: Judge | None = None
    _repeated: Mapping[str, Any] | None = None

    @classmethod
    def declared(
        cls, rules: str | Mapping[str, Any] | None, *, quarantine: Path | None, tables: Path | None, night: str | None
    ) -> RowRuling:
        """From a step's parameters.

        Raises:
            InputError: they declare no rules, or rows are to be put aside and there is no folder for them.
        """
        if not rules:
            return cls(None, None, tables, night)
        from drivetrain.data.row_rules.declared import declared_rules

        found = declared_rules(rules)
        takes_out = found.takes_rows_out
        if takes_out and quarantine is None:
            raise InputError("rules put rows aside, and there is no folder for them. Give --quarantine.")
        return cls(found, quarantine if takes_out else None, tables, night)

    @property
    def inputs(self) -> dict[str, Path]:
        return {"tables": self.tables} if self.tables else {}

    @property
    def outputs(self) -> dict[str, Path]:
        return {"quarantine": self.folder} if self.folder else {}

    @property
    def types(self) -> dict[str, str]:
        """The types that the rules give columns."""
        return dict(self.rules.types) if self.rules else {}

    @property
    def parameters(self) -> dict[str, str]:
        """The lineage's parameter: there where rules decide on rows or types, so that other rules read all anew."""
        return {"rules": identity} if self.rules and (identity := self.rules.identity) else {}

    def attempt(self, table: Table, run: Callable[[Table], None]) -> None:
        """Run a step on a table; a second time where rows must be put aside that repeat earlier ones."""
        if self.rules is None:
            return run(table)
        from drivetrain.data.convert import Unreadable
        from drivetrain.data.row_rules.judging import RepeatedError

        patterns = [rule.column for rule in self.rules.rules if rule.name == "unreadable"]
        names = frozenset(name for each in patterns for name in fnmatch.filter(table.schema.names, each))
        self._repeated = None
        while True:
            try:
                return run(replace(table, unreadable=Unreadable(names)) if names else table)
            except RepeatedError as error:
                self._repeated = error.hashes

    def start(self, table: Table, scratch: Scratch) -> Judge | None:
        """Before rows are read; the scratch folder need not be there yet."""
        if self.rules is None:
            return None
        from drivetrain.data.row_rules.judging import judge_of
        from drivetrain.data.row_rules.quarantine import Quarantine

        quarantine = Quarantine(self.folder, self.rules, table.schema) if self.folder else None
        self._judge = judge_of(
            self.rules,
            table,
            scratch,
            night=self.night,
            tables=self.tables,
            quarantine=quarantine,
            repeated=self._repeated,
        )
        if quarantine:
            quarantine.writer.start()
        return self._judge

    def judged(self, table: Table) -> Iterator[tuple[Source, int, Batch, Array | None]]:
        """The batches of a table without the rows that are put aside: a file, the index of the first row that was
        read, the batch, and the indices of its rows among those that were read, or None for all."""
        for source, first, batch in table.batches():
            kept = self._judge.kept(source, first, batch) if self._judge else None
            if kept is None:
                yield source, first, batch, None
            elif len(kept):
                yield source, first, batch.take(kept), kept

    def finish(self) -> dict[str, Any]:
        """After all rows are read: the entry of the lineage.

        Raises:
            InputError: a rule is broken by more rows than it allows.
        """
        return {"rules": self._judge.finish()} if self._judge else {}

    def staged(self, lineage: Mapping[str, Any]) -> Sequence[VersionFolder]:
        """The quarantine, to be published with the step's sets; nothing where no rule puts rows aside."""
        quarantine = self._judge.quarantine if self._judge else None
        if quarantine is None:
            return ()
        manifest = quarantine.stage(lineage)
        if self._judge and self._judge.put_aside:
            print(f"quarantine: {self._judge.put_aside:,} rows, {manifest.rows:,} entries", flush=True)
        return (quarantine.writer,)

    def discard(self) -> None:
        if self._judge and self._judge.quarantine:
            self._judge.quarantine.writer.discard()
