"""Tables that do not lie in a folder: one file a source, found by the scheme of its address, held by
tests/contract/test_sources.py.

A source has

    SUMMARY = "..."                        one line for people
    EXAMPLE = "delta:lake/orders"          an address
    def open_source(place, options) -> Opened

An address is `SCHEME:PLACE` (`delta:lake/orders`, `s3://bucket/prefix`). Opening finds the table's current version, and
that version is read even if the table is written to meanwhile. Two openings with one version give the same rows in the
same order.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.arrow import Batch, Schema
from drivetrain.data.reading import TableOptions

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9]*):(?P<place>.+)", re.DOTALL)
# A secret in an address would stand in definitions, logs and manifests.
_PASSWORD = re.compile(r"//[^/@\s:]*:[^/@\s]+@|[?&](?:ssl)?password=", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a source is read."""

    version: str = ""
    """The version to read; empty for the newest."""
    query: str = ""
    """The query for a database."""
    watermark: str = ""
    """The column of the query whose values grow with each new row."""
    table: TableOptions
    """How files are read."""
    empty: Collection[str] = ()
    """Columns in which the rows of an earlier run have no value (for `added_since`)."""
    whole: bool = False
    """Infer the types of text files from all rows, not from the first ones."""
    scratch: Path
    """A folder for files on their way. What an interrupted run has left in it is used again."""


class Opened(Protocol):
    """One version of a table. A source without `checks` inherits the empty ones."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The manifest's entry for it, as JSON: `version`, and what `added_since` needs later."""
        ...

    @property
    def checks(self) -> Mapping[str, Any]:
        """Further fields of the manifest's entry, known after the rows are read; `added_since` gets them, too."""
        return {}

    @property
    def schema(self) -> Schema: ...

    def batches(self) -> Iterator[Batch]:
        """Its rows, with the columns and types of `schema`; bounded memory."""
        ...

    def added_since(self, earlier: Mapping[str, Any], schema: Schema) -> Opened:
        """Only the rows that an earlier version did not have.

        Args:
            earlier: the identity of the earlier version, with its checks.
            schema: the columns that were read of it.

        Raises:
            NotUsableError: rows were changed or removed since, or it cannot be known.
        """
        ...


class Source(Protocol):
    SUMMARY: str
    EXAMPLE: str

    @staticmethod
    def open_source(place: str, options: Options) -> Opened: ...


def names() -> tuple[str, ...]:
    """The schemes that there are."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")))


def source(name: str) -> Source:
    return cast("Source", importlib.import_module(f"drivetrain.data.sources.{name}"))


def open_source(address: str, options: Options) -> Opened:
    """
    Raises:
        InputError: there is no such source, table or version, or it cannot be read.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        examples = ", ".join(source(name).EXAMPLE for name in names())
        raise InputError(
            f"source is {address!r}, which is not SCHEME:PLACE. Examples: {examples}. A folder of this machine is "
            "given to a step as raw, and needs no source."
        )
    if found["scheme"] not in names():
        raise InputError(f"there is no source {found['scheme']!r}. {did_you_mean(found['scheme'], names())}")
    if _PASSWORD.search(address):
        raise InputError(
            f"the address of the source {found['scheme']} has a password in it. Leave it out, and set it in the "
            "environment of the step (PGPASSWORD or PGPASSFILE for postgresql)."
        )
    chosen = source(found["scheme"])
    if found["scheme"] not in ("sqlite", "postgresql") and (options.query or options.watermark):
        raise InputError(f"query and watermark are for databases; the source is {found['scheme']}. Leave them out.")
    return chosen.open_source(found["place"], options)


def no_such_version(version: str, newest: str, what: str) -> InputError:
    return InputError(
        f"{what} has no version {version!r}: the newest is {newest!r}. Leave out version to read the newest."
    )
