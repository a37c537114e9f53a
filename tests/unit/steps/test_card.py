"""Cards: what a step adds, and what it may not."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components import Card
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import Artifact
from drivetrain.telling.content.card import (
    BarsPart,
    CardFacts,
    ChartPart,
    HtmlPart,
    ImagePart,
    TablePart,
    TextPart,
    read_card,
)
from drivetrain.telling.content.findings import findings
from drivetrain.telling.page.card_section import draw as card_sections

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def read(folder: Path) -> CardFacts:
    found = read_card("look", folder)
    assert found is not None
    return found


def shown(folder: Path) -> str:
    return "".join(card_sections([read(folder)]))


def test_each_part_in_one_line(tmp_path: Path) -> None:
    Card(tmp_path, title="Prices").text("# High\n*by* [district](https://example.com)").table(
        [{"name": "a", "price": 1.5}, {"name": "b & c", "price": None}], caption="rows"
    ).chart("price", {"median": [1, 2, float("nan")]}, x=[10, 20, 30]).bars("gain", {"age": 0.4, "a > b": 3}).image(
        PIXEL, "one pixel"
    ).html("<b>hi</b>")
    text, table, chart, bars, image, html = read(tmp_path).parts
    assert bars == BarsPart(title="gain", rows=(("age", 0.4), ("a > b", 3.0)))
    assert text == TextPart(markdown="# High\n*by* [district](https://example.com)")
    assert table == TablePart(caption="rows", columns=("name", "price"), rows=(("a", 1.5), ("b & c", None)), total=2)
    assert chart == ChartPart(title="price", x_label="", lines=(("median", ((10.0, 1.0), (20.0, 2.0))),))
    assert isinstance(image, ImagePart) and image.address.startswith("data:image/png;base64,iVBOR")
    assert html == HtmlPart(caption="", html="<b>hi</b>", height=320)
    page = shown(tmp_path)
    for piece in (
        "Prices",
        "<h3>High</h3>",
        "<em>by</em>",
        'href="https://example.com"',
        "b &amp; c",
        "gain: age 0.4000; a &gt; b 3",
        "–",
        "one pixel",
    ):
        assert piece in page, piece
    assert '<iframe sandbox="" srcdoc="&lt;b&gt;hi&lt;/b&gt;"' in page


def test_a_card_is_continued(tmp_path: Path) -> None:
    Card(tmp_path, title="Prices").text("one")
    Card(tmp_path).image(PIXEL)
    card = read(tmp_path)
    assert card.title == "Prices" and [type(part) for part in card.parts] == [TextPart, ImagePart]


def test_data_frames_figures_and_files(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    pillow = pytest.importorskip("PIL.Image")
    (tmp_path / "given.png").write_bytes(PIXEL)

    class Figure:
        def savefig(self, buffer: Any, **options: Any) -> None:
            buffer.write(PIXEL)

    card = Card(tmp_path / "card").table(polars.DataFrame({"a": [1, 2]}))
    card.image(Figure()).image(pillow.new("RGB", (2, 2))).image(tmp_path / "given.png")
    table, *images = read(tmp_path / "card").parts
    assert isinstance(table, TablePart) and table.rows == ((1,), (2,))
    assert len(images) == 3 and all(isinstance(one, ImagePart) for one in images)


def test_long_tables_are_cut_and_say_so(tmp_path: Path) -> None:
    Card(tmp_path).table([{"n": n} for n in range(1_200)])
    assert "the first 1,000 of 1,200 rows" in shown(tmp_path)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda card: card.table(3), "a list of mappings"),
        (lambda card: card.chart("x", {"a": [1, 2]}, x=[1]), "'a' has 2 values, x 1"),
        (lambda card: card.chart("x", {str(n): [1] for n in range(13)}), "Allowed: 12 lines"),
        (lambda card: card.bars("x", {"a": float("inf")}), "'a' is inf. Allowed: finite numbers"),
        (lambda card: card.bars("x", dict.fromkeys(map(str, range(101)), 1.0)), "101 rows. Allowed: 100"),
        (lambda card: card.image(b"text"), "no PNG"),
        (lambda card: card.image("/no/such.png"), "No such file"),
        (lambda card: card.image(3), "a figure, an image, bytes"),
        (lambda card: card.html("x" * 2_000_001), "2,000,000"),
        (lambda card: card.html("x", height=1), "40 to 2000"),
        (lambda card: card.text("x" * 50_001), "50,000"),
        (lambda card: [card.text("x") for _ in range(51)], "at most 50 parts"),
    ],
)
def test_invalid_card_parts_are_refused(call: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        call(Card(tmp_path))
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["<script>x()</script>", "[a](javascript:x())", "![a](http://example.com/a.png)"])
def test_markdown_is_rendered_without_scripts_or_requests(text: str, tmp_path: Path) -> None:
    Card(tmp_path).text(text)
    page = shown(tmp_path)
    assert "<script" not in page and 'href="javascript' not in page and "<img" not in page


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"kind": "image", "file": "../secret.png"}, "does not lie beside the card"),
        ({"kind": "image", "file": "link.png"}, "does not lie beside the card"),
        ({"kind": "image", "file": "none.png"}, "cannot be read"),
        ({"kind": "image", "file": "card.json"}, "is no picture"),
        ({"kind": "film"}, "of the kind film"),
        ({"kind": "chart", "series": [{"name": "a", "points": [[1], ["x", 2], [1e200, 2], 3]}]}, ""),
        ({"kind": "table", "columns": 3, "rows": {"a": 1}}, ""),
    ],
)
def test_foreign_cards_are_shown_as_far_as_possible(part: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "card").mkdir()
    (tmp_path / "secret.png").write_bytes(PIXEL)
    (tmp_path / "card" / "link.png").symlink_to(tmp_path / "secret.png")
    parts = [part, {"kind": "text", "text": "still here"}]
    (tmp_path / "card" / "card.json").write_text(json.dumps({"parts": parts}))
    card = read(tmp_path / "card")
    assert said in card.problem and "still here" in shown(tmp_path / "card") and "iVBOR" not in shown(tmp_path / "card")


def test_a_card_in_the_archive_of_a_training_is_shown_with_its_pictures(tmp_path: Path) -> None:
    Card(tmp_path / "output").text("by *trees*").image(PIXEL, "one pixel")
    (tmp_path / "output" / "history.json").write_text("[]")
    home = Home(tmp_path / "home")
    archive = home.objects / "bucket" / "output.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as packed:
        for path in sorted((tmp_path / "output").iterdir()):
            packed.add(path, arcname=path.name)
    place = {"uri": "s3://bucket/output.tar.gz", "digest": "", "files": 1, "bytes": 1}
    output = Artifact(step="train", flow="output", name="output", **place)
    (card,) = findings(home, [output])["cards"]
    assert card.step == "train" and [type(part) for part in card.parts] == [TextPart, ImagePart] and not card.problem


def test_a_card_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text("{")
    assert read(tmp_path).problem == "card.json is no JSON" and "card.json is no JSON" in shown(tmp_path)
    assert read_card("look", tmp_path / "nowhere") is None
