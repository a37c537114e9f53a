"""The page of a step: its whole log, and the files that it wrote, to look at and to download.

Files are opened below the home, part by part and without following links, so that no name and no link of a program
leads out of it. A program's text is escaped, and its files are sent as what no browser opens (attachment, nosniff,
sandbox).
"""

from __future__ import annotations

import base64
import codecs
import gzip
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import size
from drivetrain.base.markup import Content, Markup, el
from drivetrain.base.masking import LogMasking
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import Artifact, StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.options import masking_of
from drivetrain.telling import listing, section
from drivetrain.telling.page.sections import status_mark
from drivetrain.ui.answers import Page, Query, plain_page, run_address, step_address
from drivetrain.ui.tables import csv_table, parquet_table

MAX_FILES = 200
PREVIEW_BYTES, IMAGE_BYTES, ARCHIVE_BYTES = 256 * 1024, 4 * 1024 * 1024, 64 * 1024 * 1024
_PIECE = 1024 * 1024
# A line of a log is sent whole, so that what is masked is seen whole; but not a longer one.
_LONGEST_LINE = 8 * _PIECE
_ALONE = {"Content-Security-Policy": "default-src 'none'; sandbox"}
_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def step_files(home: Home, execution: str, parts: Sequence[str], query: Query) -> Page:
    """Serve what lies below a run's step: its page (no parts), `log/ATTEMPT/HOST`, or `files/OUTPUT/PATH`.

    Raises:
        UserError: there is no such thing.
    """
    name, *rest = parts
    with Ledger(home) as ledger:
        execution = ledger.execution(execution).id
        step = ledger.step(execution, name)
        made_by = step.cache_of or execution
        outputs = {each.name: each for each in ledger.artifacts(made_by, name) if each.flow == "output"}
        replaced = {each.name for each in outputs.values() if ledger.writer_of(each.uri) != (made_by, name)}
    if not rest:
        return _page(home, execution, made_by, step, outputs.values(), replaced)
    if rest[0] == "log" and len(rest) == 3:
        return _log(home, made_by, name, *rest[1:])
    if rest[0] == "files" and len(rest) > 1 and rest[1] in outputs:
        base = _place(home, outputs[rest[1]])
        file = opened(home.objects, [*base, *rest[2:]])
        shown_name = rest[-1] if len(rest) > 2 else base[-1]
        if "download" in query:
            return _download(file, shown_name)
        with file:
            return _preview(file, shown_name, step_address(execution, name))
    raise UserError("There is no such file.")


def opened(root: Path, parts: Sequence[str]) -> BinaryIO:
    """A regular file below a folder; no link is followed, and no part leads up.

    Raises:
        UserError: there is no such file, or it cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if part in ("", ".", "..") or "/" in part or "\0" in part:
                    raise UserError("There is no such file.")
                below = os.open(part, flags, dir_fd=here)
                os.close(here)
                here = below
            if not stat.S_ISREG(os.fstat(here).st_mode):
                raise UserError("There is no such file.")
            return os.fdopen(here, "rb")
        except BaseException:
            os.close(here)
            raise
    except PermissionError:
        raise UserError("This file cannot be read: Permission denied.") from None
    except OSError:
        raise UserError("There is no such file.") from None


def _place(home: Home, output: Artifact) -> list[str]:
    """The path of an output below the home's objects."""
    return list(ObjectStore(home.objects).path(output.uri).relative_to(home.objects).parts)


def _page(
    home: Home, execution: str, made_by: str, step: StepRun, outputs: Iterable[Artifact], replaced: set[str]
) -> Page:
    address = step_address(execution, step.name)
    whose = [" of ", el("a", el("code", execution), href=run_address(execution))]
    taken = el("p", "Taken from run ", el("code", made_by), ".") if made_by != execution else None
    state = section("Step", el("p", status_mark(step.shown_status), whose), taken, id="step")
    files = [_output(home, address, each, is_replaced=each.name in replaced) for each in outputs]
    return plain_page(step.title, state, _logs(home.run(made_by) / step.name, address), files)


def _logs(folder: Path, address: str) -> Markup:
    logs = sorted(folder.glob("attempt-*/logs/*.log"), key=lambda log: (int(_attempt(log)), log.name))
    rows = [
        (
            f"attempt {_attempt(log)}",
            el("a", log.stem, href=f"{address}/log/{_attempt(log)}/{quote(log.stem, safe='')}"),
            size(log.stat().st_size),
        )
        for log in logs
    ]
    if not rows:
        return section("Logs", el("p", "It wrote no log."), id="logs")
    return section("Logs", listing(("Try", "Whole log of", "Size"), rows, right=("Size",)), id="logs")


def _attempt(log: Path) -> str:
    return log.parents[1].name.removeprefix("attempt-")


def _output(home: Home, address: str, output: Artifact, *, is_replaced: bool) -> Markup:
    base = home.objects.joinpath(*_place(home, output))
    found = list(islice(_files(base), MAX_FILES + 1))
    rows = [_file(f"{address}/files/{quote(output.name, safe='')}", base, file) for file in found[:MAX_FILES]]
    notes: list[Content] = [
        el("p", "Another run has written here since: these are its files.") if is_replaced else None,
        el("p", f"The first {MAX_FILES} files of {output.files:,}.") if len(found) > MAX_FILES else None,
        el("p", "No file lies there.") if not rows else None,
    ]
    table = listing(("File", "", "Size"), rows, right=("Size",), kind="files") if rows else None
    return section(f"Output {output.name}", notes, table, id=f"output-{output.name}")


def _files(base: Path) -> Iterator[Path]:
    """The regular files, without links, sorted folder by folder."""
    if base.is_file() and not base.is_symlink():
        yield base
    for folder, folders, names in os.walk(base):
        folders.sort()
        yield from (path for name in sorted(names) if not (path := Path(folder, name)).is_symlink() and path.is_file())


def _file(address: str, base: Path, file: Path) -> tuple[Content, ...]:
    name = file.name if file == base else str(file.relative_to(base))
    links: Content = None
    if _is_utf8(name):  # no address leads to another
        place = address if file == base else f"{address}/{quote(name)}"
        links = [
            el("a", "Show", href=place, aria_label=f"Show {name}"),
            " ",
            el("a", "Download", href=f"{place}?download=1", aria_label=f"Download {name}"),
        ]
    return name, links, size(file.lstat().st_size)


def _is_utf8(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _log(home: Home, made_by: str, step: str, attempt: str, host: str) -> Page:
    """A whole log as text, masked as the terminal shows it: the browser's own search finds words in it."""
    file = opened(home.runs, [made_by, step, f"attempt-{attempt}", "logs", f"{host}.log"])
    masked = LogMasking(masking_of(home.run(made_by)).secrets)
    pieces = (masked(piece)[0] for piece in _whole_lines(file))
    return Page(pieces=pieces, headers={"Content-Type": "text/plain; charset=utf-8", **_ALONE})


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    with file:
        while piece := file.read(_PIECE):
            lines, end, last = (rest + piece).rpartition(b"\n")
            rest = last
            if lines + end:
                yield lines + end
            if len(rest) > _LONGEST_LINE:
                yield rest
                rest = b""
    if rest:
        yield rest


def _download(file: BinaryIO, name: str) -> Page:
    length = os.fstat(file.fileno()).st_size
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Length": str(length),
        **_ALONE,
    }
    return Page(pieces=_exactly(file, length), headers=headers)


def _exactly(file: BinaryIO, length: int) -> Iterator[bytes]:
    """So many bytes of a file that may grow meanwhile."""
    with file:
        while length and (piece := file.read(min(length, _PIECE))):
            length -= len(piece)
            yield piece


def _preview(file: BinaryIO, name: str, back: str) -> Page:
    length = os.fstat(file.fileno()).st_size
    content = file.read(PREVIEW_BYTES)
    kind = next((kind for begin, kind in _IMAGES if content.startswith(begin)), None)
    if kind is not None and length <= IMAGE_BYTES:
        content += file.read(IMAGE_BYTES)
        source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        shown: Content = el("img", src=source, alt=name, style="max-width:100%")
    elif name.endswith((".tar.gz", ".tgz")):
        file.seek(0)
        shown = archive_listing(file)
    elif name.endswith(".parquet"):
        shown = parquet_table(file)
    else:
        shown = _text(content, name, is_whole=length <= len(content))
    links = el("p", size(length), ", ", el("a", "all files of the step", href=back))
    cut = None
    if length > len(content) and not name.endswith((".tar.gz", ".tgz", ".parquet")):
        cut = el("p", f"The first {size(len(content))}. Download the file for the rest.")
    return plain_page(name, section("File", links, cut, shown, id="file"))


class _Beginning:
    """The first bytes of a file, for readers that would believe any size."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file = file
        self.left = length

    def read(self, length: int) -> bytes:
        piece = self._file.read(min(length, self.left))
        self.left -= len(piece)
        return piece


def archive_listing(file: BinaryIO) -> Content:
    """The names in a packed archive, as a training's model is one; of a large one those at its beginning."""
    rows: list[tuple[str, str]] = []
    note = None
    with gzip.open(file) as unpacked:
        beginning = _Beginning(cast(BinaryIO, unpacked), ARCHIVE_BYTES)
        try:
            with tarfile.open(fileobj=cast(BinaryIO, beginning), mode="r|") as archive:
                for member in islice((each for each in archive if each.isfile()), MAX_FILES + 1):
                    rows.append((member.name, size(member.size)))
        except (tarfile.TarError, OSError, EOFError, zlib.error):
            note = el("p", "It cannot be read to its end.") if beginning.left else None
        if not beginning.left or len(rows) > MAX_FILES:
            note = el("p", "These are the files at its beginning.")
    return [note, listing(("File", "Size"), rows[:MAX_FILES], right=("Size",), kind="files") if rows else None]


def _text(content: bytes, name: str, *, is_whole: bool) -> Content:
    if b"\0" in content or (text := _decoded(content, is_whole=is_whole)) is None:
        return el("p", "It is no text and no picture that a page can show. Download it.")
    if name.endswith((".csv", ".tsv")):
        if (table := csv_table(text, "\t" if name.endswith(".tsv") else ",", is_whole=is_whole)) is not None:
            return table
    elif name.endswith(".json") and is_whole:
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return el("pre", text)  # as it is
    return el("pre", text)


def _decoded(content: bytes, *, is_whole: bool) -> str | None:
    """The text; None of what is no UTF-8. A character may be cut at the end of a part."""
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(content, is_whole)
    except UnicodeDecodeError:
        return None
