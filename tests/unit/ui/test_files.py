"""The page of a step: its files and logs, and that nothing leads out of the home or runs in the browser."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.base.errors import UserError
from drivetrain.base.markup import join
from drivetrain.run_store.home import Home
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.ui import files
from drivetrain.ui.files import opened
from tests.unit.ui.test_server import Asked, raw

# What `write` writes: everything that a page could show, and what it must not follow.
FILE = r"""
from drivetrain import Pipeline, step
from drivetrain.components import Output, component


@component
def write(out: Output) -> None:
    import os

    print("line <one>")
    (out / "scores.csv").write_text("district,price\nnorth,<b>1</b>\n" + "south,2\n" * 150)
    (out / "result.json").write_text('{"a": {"b": 1}}')
    (out / "broken.json").write_text("[" * 100_000)
    (out / "page.html").write_text("<script>alert(1)</script>")
    (out / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n0000")
    (out / "weights.bin").write_bytes(bytes(range(256)))
    (out / "long.txt").write_text("x" * 300_000)
    (out / "below").mkdir()
    (out / "below" / "a b%2F.txt").write_text("deep")


def files() -> Pipeline:
    return Pipeline(name="files", steps=[step(write)])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dt.Run]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "files_run.py").write_text(FILE)
    with chdir(folder):
        found = dt.run("files_run.py", quiet=True)
        (found.steps["write"].outputs["out"] / "link.txt").symlink_to("/etc/passwd")
        yield found


@pytest.fixture(scope="module")
def ask(run: dt.Run) -> Iterator[Asked]:
    asked = Asked(Home())
    yield asked
    asked.close()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("scores.csv", ['<th scope="col">price</th>', "&lt;b&gt;1&lt;/b&gt;", "the first 100 rows"]),
        ("result.json", ["{\n  &quot;a&quot;: {"]),
        ("broken.json", ["[[[["]),
        ("page.html", ["<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>"]),
        ("picture.png", ['<img src="data:image/png;base64,']),
        ("weights.bin", ["Download it."]),
        ("long.txt", ["Download the file for the rest", "xxxx"]),
        ("below/a%20b%252F.txt", ["deep"]),
    ],
)
def test_a_file_is_shown_by_type_and_never_as_html(ask: Asked, run: dt.Run, name: str, shown: list[str]) -> None:
    page = ask(f"/runs/{run.id}/steps/write/files/out/{name}")
    assert all(text in page for text in shown)
    assert "<script>alert" not in page and "<b>1" not in page
    assert len(page) < 700_000


def test_a_download_is_the_exact_file_and_is_not_rendered(ask: Asked, run: dt.Run) -> None:
    assert ask(f"/runs/{run.id}/steps/write/files/out/page.html?download=1") == "<script>alert(1)</script>"
    sent = ask.headers
    assert sent["Content-Disposition"] == "attachment; filename*=UTF-8''page.html"
    assert (sent["Content-Type"], sent["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    assert "sandbox" in str(sent["Content-Security-Policy"]) and sent["Content-Length"] == "25"
    page = ask(f"/runs/{run.id}/steps/write")
    assert "page.html" in page and "below/a b%2F.txt" in page and "link.txt" not in page


def test_the_whole_log_is_text_without_secrets(ask: Asked, run: dt.Run) -> None:
    host = ask(f"/runs/{run.id}/steps/write").partition("/log/1/")[2].partition('"')[0]
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    log = next(Home().logs(run.id, "write", 1).glob("*.log"))
    with log.open("a") as file:
        file.write("x" * 3_000_000 + f"\nAWS_SECRET_ACCESS_KEY={secret}\nlast")
    text = ask(f"/runs/{run.id}/steps/write/log/1/{host}")
    assert text.startswith("line <one>") and text.endswith("AWS_SECRET_ACCESS_KEY=***\nlast") and secret not in text
    assert ask.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "sandbox" in str(ask.headers["Content-Security-Policy"])
    assert f'href="/runs/{run.id}/steps/write"' in ask(f"/runs/{run.id}")


@pytest.mark.parametrize(
    "path",
    [
        *("files/out/link.txt", "files/out/../out/result.json", "files/out/%2e%2e/out/result.json", "files/out"),
        *("files/out//result.json", "files/out/%00", "files/out/below", "files/other/result.json", "files/out/none"),
        *("log/1/..%2F..%2F..%2Frequest", "log/1/%2e%2e", "log/9/none", "log/../1/x", "log", "other"),
        *("files/out/" + "a" * 5_000, "log/1/" + "a/" * 3_000),
    ],
)
def test_no_path_or_link_leaves_the_folder(
    ask: Asked, run: dt.Run, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    cookie = f"Cookie: {ask.own['Cookie']}"
    for query in ("", "?download=1"):
        assert raw(ask, f"GET /runs/{run.id}/steps/write/{path}{query}", cookie) == ["404"]
    assert raw(ask, f"GET /runs/{run.id}/steps/write/{path}") == ["403"]
    assert raw(ask, f"GET /runs/../steps/write/{path}", cookie) == ["404"]
    assert capfd.readouterr().err == ""


def packed(sizes: dict[str, int], *, cut: int | None = None) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, size in sizes.items():
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return io.BytesIO(file.getvalue()[:cut])


@pytest.mark.parametrize(
    ("archive", "shown", "hidden"),
    [
        (packed({"model.txt": 3, "<b>": 1}), ["model.txt", "&lt;b&gt;"], "<p>"),
        (packed({f"f{number}": 0 for number in range(201)}), ["f199", "at its beginning"], "f200"),
        (packed({"large": 300_000, "last": 1}), ["large", "at its beginning"], "last"),
        (packed({"model.txt": 2_000}, cut=60), ["to its end"], "at its beginning"),
        (io.BytesIO(b"no archive"), ["to its end"], "at its beginning"),
    ],
)
def test_an_archive_is_listed_and_a_large_one_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch, archive: io.BytesIO, shown: list[str], hidden: str
) -> None:
    monkeypatch.setattr(files, "ARCHIVE_BYTES", 200_000)
    text = join([files.archive_listing(archive)])
    assert all(each in text for each in shown) and hidden not in text and "<b>" not in text


def test_only_regular_files_without_links_on_the_way_are_opened(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    (outside / "b").write_text("secret")
    (root / "a" / "b").write_text("ours")
    (root / "to").symlink_to(outside)
    os.mkfifo(root / "pipe")
    with opened(root, ["a", "b"]) as file:
        assert file.read() == b"ours"
    for parts in (["to", "b"], ["pipe"], ["a"], [], ["..", "outside", "b"], ["a/b"], ["/etc/hostname"], ["none"]):
        with pytest.raises(UserError, match="There is no such file"):
            opened(root, parts)


def test_cached_files_are_attributed_to_the_earlier_run(ask: Asked, run: dt.Run) -> None:
    cached = dt.run("files_run.py", quiet=True)
    page = ask(f"/runs/{cached.id}/steps/write")
    assert "Taken from run" in page and run.id in page and "result.json" in page
    assert "deep" in ask(f"/runs/{cached.id}/steps/write/files/out/below/a%20b%252F.txt")


def test_overwritten_files_are_attributed_to_the_later_run(ask: Asked, run: dt.Run) -> None:
    said = "Another run has written here since"
    assert said not in ask(f"/runs/{run.id}/steps/write")
    later = dt.run("files_run.py", quiet=True, cache=False)
    with LedgerWriter(ask.home) as ledger, ledger.transaction() as db:  # as of an output with a place of its own
        sql = "UPDATE artifacts SET uri = (SELECT uri FROM artifacts WHERE execution = ? AND name = 'out')"
        db.execute(f"{sql} WHERE execution = ? AND name = 'out'", (run.id, later.id))
    assert said in ask(f"/runs/{run.id}/steps/write") and said not in ask(f"/runs/{later.id}/steps/write")
