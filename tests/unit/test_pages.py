"""What the pages say exists: their links lead somewhere, and the commands that they show are ones that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli.main import COMMANDS, app

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
PAGES += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
# A command at the beginning of a line of a block, as a shell takes it.
COMMAND = re.compile(r"^ *(?:\$ )?(?:nohup |nice )?(?:\S*/)?(?:drivetrain|make) .*$", re.MULTILINE)
SHELL = ("", "console", "sh", "bash", "shell")
COMPONENTS = {"submit"}  # its further options are those of a component


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives headings."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", each).strip().lower()).replace(" ", "-") for each in headings}


def commands(page: str) -> Iterator[list[str]]:
    for language, block in BLOCK.findall(text_of(page)):
        if language in SHELL:
            for line in COMMAND.findall(block.replace("\\\n", " ")):
                words = shlex.split(line.strip().removeprefix("$ "), comments=True)
                yield words[next(n for n, word in enumerate(words) if word.endswith(("drivetrain", "make"))) :]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.findall(BLOCK.sub("", text_of(page))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page} links to {link}; headings there: {sorted(anchors(target))}"


def test_the_index_lists_every_page() -> None:
    linked = {f"docs/{link.partition('#')[0]}" for link in LINK.findall(text_of("docs/index.md"))}
    assert {page for page in PAGES if page.count("/") == 1 and page != "docs/index.md"} <= linked
    assert "docs/index.md" in LINK.findall(text_of("README.md"))


def test_the_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= 110


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    folders = r"docs|tests|drivetrain/\w+|pipelines|components|training_scripts|infra|\.ci"
    named = re.findall(rf"`((?:{folders})/[\w./]*)`", text_of(page))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_a_page_shows_exist_with_their_options(page: str) -> None:
    verbs = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    for words in commands(page):
        if words[0].endswith("make"):
            assert not words[1:2] or "=" in words[1] or words[1] in verbs, words
        else:
            assert unknown(words[1:]) is None, f"{page}: {shlex.join(words)}: there is no {unknown(words[1:])}"


def unknown(words: list[str]) -> str | None:
    """The first word of a command line that names nothing."""
    command: Any = app
    names: list[str] = []
    while hasattr(command, "list_commands"):
        if words[len(names)].startswith("-"):
            break
        name = words[len(names)]
        found = command.get_command(None, name)
        if found is None:
            return name
        command, names = found, [*names, name]
    known = {option for each in command.params for option in each.opts} | {"--help", "-h"}
    for word in words[len(names) :]:
        if word == "|" or word == ">" or word == "&&":
            break
        if word.startswith("-") and not re.match(r"-\d|-$", word) and word.partition("=")[0] not in known:
            if names[0] in COMPONENTS and word.startswith("--"):
                continue
            return word
    return None


def test_what_is_unknown_is_found() -> None:
    assert unknown(["plan", "retraining", "--out", "plan.json"]) is None
    assert unknown(["plann", "retraining"]) == "plann"
    assert unknown(["runs", "shw", "latest"]) == "shw"
    assert unknown(["plan", "retraining", "--output", "plan.json"]) == "--output"
    assert "plan" in COMMANDS
    assert len(list(commands("README.md"))) > 10


def test_the_site_has_every_page() -> None:
    """`make docs` is strict: a page that its navigation lacks ends it."""
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]))
    there = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/") and "/site/" not in page}
    made = {"readme.md", "contributing.md", "reference/python.md", "reference/commands.md", "reference/changes.md"}
    assert listed == there | made
