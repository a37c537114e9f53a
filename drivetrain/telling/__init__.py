"""What people see of a pipeline and of a run: the DAG as a picture, and the page of a run. Here is what all pages are:
an HTML file that needs nothing else. Nothing is fetched, whatever it tells of. Of scripts only ours run, and only in
pages that need one: the policy names them by their hashes.

And here is how the reason of a failed step is said, on a page as in the terminal: in the words and with the paths that
the user knows.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from drivetrain.base.formatting import place
from drivetrain.base.markup import Content, Markup, el, join
from drivetrain.base.records import dataclass

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"

TRACEBACK = "Traceback (most recent call last)"

# Of a job on several hosts the runner says first which one failed.
_HOST = re.compile(r"^host \S+: (?=error: |rank \d+ of \d+ )")
_RANK = re.compile(r"^rank \d+ of \d+ on \S+ (?P<verb>failed|hangs|is out of step): .*")
_BAD_INPUT = "error: "
# A path begins where no other goes on, so that each character is looked at once: a log may have lines of any length.
_IN_PATH = r"[^\s\"'()\[{<=:,;`|]"
_BEGIN = rf"(?<!{_IN_PATH})/{_IN_PATH}*"
# The same folders in a container and where nothing can be mounted (processes/mounts.py). Of what lies
# below /opt/ml the user named the channels, inputs and outputs alone.
_BASE = rf"(?:(?<![\w/.~+-])/opt/ml|{_BEGIN}/hosts/127(?:\.\d+){{3}})"
_CHANNEL = re.compile(rf"{_BASE}/(?:input/data|processing/(?:input|output))/(?=\w)")
# A training's own folder below the checkpoints is a name of hashes, which says nothing to anyone.
_TRAINING = r"/(?:checkpoints|trainings)(?:/[0-9a-f]{32,}(?:-[0-9a-f]+)*)?"
_CHECKPOINT = re.compile(rf"{_BASE}{_TRAINING}/(?=\w)(?![0-9a-f]{{32}})")
_CHECKPOINTS = re.compile(rf"{_BASE}{_TRAINING}/?(?![\w/])")
# Where drivetrain/steps/start.py unpacks the user's files (source/) and our own (drivetrain/).
_CODE = re.compile(rf"{_BEGIN}/drivetrain-code-[0-9a-f]+/code/(?:source/)?(?=\w)")


@dataclass(frozen=True, kw_only=True)
class Around:
    """What stands around a page that is one of several: where else one can go, and, of a served page, its script."""

    links: tuple[tuple[str, str], ...]
    """Text and address; `here` is the address of this page among them."""
    here: str = ""
    scripts: tuple[str, ...] = ()
    """Addresses of scripts on the page's own server; a page with some may fetch from there, and send forms to it."""

    def head(self) -> list[Markup]:
        return [el("script", src=address, defer=True) for address in self.scripts]

    def top(self) -> list[Markup]:
        """The way past the links, and the links."""
        links = [
            el("a", text, href=address, aria_current="page" if address == self.here else None)
            for text, address in self.links
        ]
        skip = el("a", "Skip to the content", href="#content", class_="skip")
        return [skip, el("nav", el("b", "drivetrain"), links, aria_label="Pages", class_="pages")]


def document(
    title: str,
    *content: Content,
    styles: tuple[str, ...] = (),
    scripts: tuple[str, ...] = (),
    around: Around | None = None,
) -> str:
    """The whole file; `styles` and `scripts` are further files of this folder."""
    policy = _policy(scripts, served=around is not None and bool(around.scripts))
    sheets = ("palette.css", "dag.css", "page.css", *styles, *(("pages.css",) if around else ()))
    head = join(
        [
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="generator", content="drivetrain"),
            el("title", title),
            el("style", Markup("".join(map(asset, sheets)))),
            *(el("script", Markup(asset(name))) for name in scripts),
            *(around.head() if around else ()),
        ],
        "\n",
    )
    body = join([*(around.top() if around else ()), *content], "\n")
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _policy(scripts: tuple[str, ...], *, served: bool) -> str:
    """What the page may load and run: nothing but these scripts; one that is served, what its server has, too."""
    allowed = [f"'sha256-{_hash(name)}'" for name in scripts] + ["'self'"] * served
    return "; ".join(
        [
            _POLICY,
            *([f"script-src {' '.join(allowed)}"] if allowed else []),
            *(["connect-src 'self'", "form-action 'self'"] if served else ["form-action 'none'"]),
        ]
    )


@cache
def _hash(name: str) -> str:
    return b64encode(sha256(asset(name).encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """The text of a style sheet or script beside this file."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def section(title: str, *content: Content, id: str) -> Markup:
    """A part of a page under a heading."""
    return el("section", el("h2", title, id=id), content, aria_labelledby=id)


def listing(
    head: Sequence[str], rows: Iterable[Sequence[Content]], *, right: Collection[str] = (), kind: str = ""
) -> Markup:
    """A table of an item a row, in a box that can be scrolled; on a phone a row is a card, where columns are named.

    Args:
        head: names of the columns; empty for one that names itself.
        right: those whose numbers end below each other.
        kind: a further style of the box.
    """
    sides = ["right" if name in right else None for name in head]
    top = [
        el("th", name, scope="col", class_=side) if name else el("td") for name, side in zip(head, sides, strict=True)
    ]

    def cell(place: int, content: Content) -> Markup:
        return el("td", content, class_=sides[place], data_name=head[place] or None)

    body = [
        el("tr", el("th", first, scope="row"), [cell(place, each) for place, each in enumerate(rest, 1)])
        for first, *rest in rows
    ]
    table = el("table", el("thead", el("tr", top)), el("tbody", body), class_="stacked")
    return el("div", table, class_=f"scroll {kind}".rstrip(), tabindex=0)


def tile(label: str, value: str, note: str) -> Markup:
    """A number that is seen at first sight."""
    return el("div", el("span", label), el("b", value), el("small", note) if note else None, class_="tile")


def place_code(uri: str) -> Markup:
    """A place, short; whole for the pointer that rests on it."""
    return el("code", place(uri), title=uri)


def definitions(rows: list[tuple[str, Content]]) -> Markup:
    """Names and what they stand for; those without a value are left out."""
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in rows if value is not None], class_="facts")


def without_host(reason: str) -> str:
    """A reason without the host before it, where the rest says who failed, or where it does not matter who did."""
    return _HOST.sub("", reason)


def is_bad_input(reason: str | None) -> bool:
    """Whether a step's program refused its input: it says so in one message, and its log has nothing to add."""
    return without_host(reason or "").startswith(_BAD_INPUT)


def failing_rank(reason: str | None) -> str | None:
    """The launcher's line that names the rank: `rank 1 of 2 on algo-1 failed: ValueError: bad`; None without one."""
    first = without_host((reason or "").strip()).partition("\n")[0].rstrip()
    return first if _RANK.match(first) else None


def hangs(rank_line: str) -> bool:
    """Whether failing_rank's line says that the rank hangs."""
    match = _RANK.match(rank_line)
    return match is not None and match["verb"] == "hangs"


def in_a_line(reason: str) -> str:
    """The line that says what happened: the failing rank's, else of a traceback the one that names the exception (its
    message may go on), else the last."""
    rank = failing_rank(reason)
    if rank is not None:
        return known_paths(rank)
    lines = without_host(reason.strip()).splitlines() or [""]
    starts = [number for number, line in enumerate(lines) if line.startswith(TRACEBACK)]
    told = [line for line in lines[starts[-1] + 1 :] if line and not line.startswith(" ")] if starts else []
    return known_paths((told[0] if told else lines[-1]).strip())


def joined(parts: Iterable[str]) -> str:
    """Remarks in one line; after one that is a sentence stands a semicolon."""
    *before, last = [part for part in parts if part] or [""]
    return "".join(f"{part[:-1]}; " if part.endswith(".") else f"{part}, " for part in before) + last


def known_paths(text: str) -> str:
    """`train/part-00000.parquet` and `my_recipe.py`, where a program in its container names longer paths."""
    text = _CHECKPOINTS.sub("the training's checkpoints", _CHECKPOINT.sub("", text))
    return _CODE.sub("", _CHANNEL.sub("", text))
