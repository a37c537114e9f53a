"""Labels that arrive after their rows were served, joined to these by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drivetrain.base.errors import InputError, and_more
from drivetrain.base.formatting import count
from drivetrain.data.arrow import Array, arrow
from drivetrain.data.manifest import MANIFEST_FILE, Manifest
from drivetrain.data.reading import TableOptions, open_table
from drivetrain.data.source import CellError

KEY, LABEL = "key", "label"
_FEWEST, _LEAST_SHARE = 20, 0.01


@dataclass(frozen=True, kw_only=True)
class LateLabels:
    """The labels of served rows. 7 and "7" are the same key."""

    key: str
    """The column of the key."""
    keys: Array
    """Texts, each once: keys of served rows."""
    labels: Array
    twice: int
    """Keys with several rows of one label, which count once."""
    contradicting: int
    """Keys with different labels, which are left out."""
    never_served: int
    """Keys that no served row has."""
    rows: int
    """Rows with a key and a label, bad ones among them."""
    bad: int = 0
    """Rows whose label the task does not have. They are left out."""
    example: str = ""
    """A bad label."""
    unlike: str = ""
    """A sentence, where next to no label has the key of a served row."""

    def sentence(self, served: int) -> str:
        """The number of labels that have arrived, and what was left out."""
        left = [
            f"{count(number, 'key')} {words}"
            for number, words in (
                (self.twice, "with several rows of one label"),
                (self.contradicting, "with different labels, left out"),
                (self.never_served, "never served"),
            )
            if number
        ]
        if self.bad:
            are = "is" if self.bad == 1 else "are"
            left.append(f"{count(self.bad, 'label')} {are} none of the task, such as {self.example!r:.40}, left out")
        more = f" ({'; '.join(left)})" if left else ""
        return f"{len(self.keys):,} of {served:,} served rows have a label{more}"


def read_rows(folder: Path, columns: list[str], manifest: Manifest | None = None) -> Array:
    """Columns of a set with a manifest, as a table of Arrow."""
    manifest = manifest or Manifest.read(folder)
    parquet, pa = arrow().parquet, arrow()
    found = [parquet.read_table(folder / shard.file, columns=columns) for shard in manifest.shards]
    return pa.concat_tables(found).combine_chunks() if found else pa.table({name: pa.array([]) for name in columns})


def read_labels(
    source: Path, served: Array, *, key: str, label: str, understood: Callable[[Array], Array] = lambda labels: labels
) -> LateLabels:
    """Join labels to served rows.

    Args:
        source: a set of prepare_data, or a file or folder of CSV, JSON Lines, Parquet or Arrow.
        served: the keys of the served rows, texts.
        key: the column of the key.
        label: that of the label; "" for the label of a set, or the only other column of a table.
        understood: makes null of labels that the task does not have.

    Raises:
        InputError: no such column, or files that cannot be read.
    """
    pa = arrow()
    try:
        table = _table(source, key, label)
    except InputError as error:
        more = " A schema is given to prepare_data: give the set that it makes." if "schema" in str(error) else ""
        raise InputError(f"labels: {error}{more}") from None
    given = table.column(LABEL)
    labels = understood(given)
    bad = given.filter(pa.compute.is_null(labels))
    by_key = (
        pa.table({KEY: table.column(KEY), LABEL: labels})
        .drop_null()
        .group_by(KEY)
        .aggregate([(LABEL, "min"), (LABEL, "max"), (LABEL, "count")])
    )
    agree = pa.compute.equal(by_key.column(f"{LABEL}_min"), by_key.column(f"{LABEL}_max"))
    known = pa.compute.is_in(by_key.column(KEY), value_set=served)
    several = pa.compute.greater(by_key.column(f"{LABEL}_count"), 1)
    found = by_key.filter(pa.compute.and_(agree, known))

    def number(*conditions: Array) -> int:
        both = conditions[0] if len(conditions) == 1 else pa.compute.and_(*conditions)
        return pa.compute.sum(both).as_py() or 0

    unlike, matched, keys = "", number(known), by_key.num_rows
    # Labels of all rows ever served are many: they are unlike where the served rows lack one, too.
    if len(served) and keys >= _FEWEST and matched < _LEAST_SHARE * min(keys, len(served)):
        other = by_key.column(KEY).filter(pa.compute.invert(known))[0].as_py()
        unlike = (
            f"{matched:,} of {keys:,} labels have the key of a served row: keys of labels are such as {other!r:.60}, "
            f"those of served rows such as {served[0].as_py()!r:.60}. Write them alike if they mean the same rows"
        )
    return LateLabels(
        key=key,
        keys=found.column(KEY).combine_chunks(),
        labels=found.column(f"{LABEL}_min").combine_chunks(),
        twice=number(agree, several),
        contradicting=number(pa.compute.invert(agree)),
        never_served=number(pa.compute.invert(known)),
        rows=table.num_rows,
        bad=len(bad),
        example=str(bad[0].as_py()) if len(bad) else "",
        unlike=unlike,
    )


def _table(source: Path, key: str, label: str) -> Array:
    """The rows of a label file with a key and a label."""
    pa = arrow()
    if (source / MANIFEST_FILE).is_file():
        manifest = Manifest.read(source)
        names = [column.name for column in manifest.schema]
        label = _label(label or manifest.label or "", key, names, source)
        table = read_rows(source, [key, label], manifest)
    else:
        options = TableOptions(key=key, label=label or None)
        opened = open_table(source, options, whole=False)
        label = _label(label, key, opened.schema.names, source)
        try:
            batches = [batch for _, _, batch in opened.batches([key, label])]
        except CellError:  # the first rows do not tell the types of all
            opened = open_table(source, options, whole=True)
            batches = [batch for _, _, batch in opened.batches([key, label])]
        table = pa.Table.from_batches(batches, opened.schema.empty_table().select([key, label]).schema)
    return pa.table({KEY: table.column(key).cast("string"), LABEL: table.column(label)}).drop_null()


def _label(given: str, key: str, names: list[str], source: Path) -> str:
    others = [name for name in names if name != key]
    if key not in names:
        raise InputError(f"{source} has no column {key!r}, the key of the served rows. It has {and_more(names, 12)}.")
    if not given and len(others) == 1:
        return others[0]
    if given not in others:
        what = f"{source} has no column {given!r}" if given else f"say with label which column of {source} it is"
        raise InputError(f"{what}. There are: {and_more(others, 12)}.")
    return given
