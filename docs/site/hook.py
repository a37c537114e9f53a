"""What the site has beside the pages of docs/: the README, changes, and reference generated from the code.

Links that lead out of docs/ go to these pages; a link to a file that has no page becomes its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# File of the repository -> its page.
BESIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "reference/changes.md"}
# Heading -> what Python users call, by the names that `import drivetrain` has.
PYTHON = {
    "Runs": ("client.run.run", "client.run.Run", "client.run.Step", "client.runs.runs", "client.runs.Runs"),
    "Comparisons": ("client.comparison.Comparison",),
    "Models": ("client.models.models", "client.models.Registry", "client.models.Model", "client.models.Models"),
    "Deployed pipelines": ("client.deployed.Deployed", "client.deployed.DeployedRun", "client.deployed.DeployedStep"),
    "Pipelines": ("authoring.Pipeline", "authoring.settings.Settings", "spec.pipeline.Parameter"),
    "Steps": (
        *(f"authoring.{name}" for name in ("step", "when", "fail", "script", "call_lambda", "folder_in")),
        *(f"authoring.{name}" for name in ("folder_out", "execution", "join")),
        *(f"authoring.for_each.{name}" for name in ("for_each", "current_item", "largest", "smallest")),
        *(f"authoring.tune.{name}" for name in ("tune", "between", "one_of")),
        "authoring.register.register",
    ),
    "Components": ("steps.declaration.component", "steps.card.Card"),
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./|docs/)[^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/python.md", content="\n".join(_python())))
    files.append(File.generated(config, "reference/commands.md", content="\n".join(_commands())))
    files.append(File.generated(config, "llms.txt", content="\n".join(_for_language_models(config))))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that lead out of docs/ lead to the pages here."""
    source = page.file.src_uri
    up = "../" * source.count("/")

    def led(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        name = target.removeprefix("../")
        if name.startswith("docs/"):
            return f"[{text}]({up}{name.removeprefix('docs/')}{anchor})"
        return f"[{text}]({up}{BESIDE[name]}{anchor})" if name in BESIDE else text

    if source not in BESIDE.values():
        return LINK.sub(led, markdown) if "/" not in source else markdown
    markdown = re.sub(r"(\(|src=\")docs/", rf"\g<1>{up}", markdown)
    other = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")

    def beside(match: re.Match[str]) -> str:
        text, name, anchor = match[1], match[2], match[3] or ""
        if name in BESIDE:
            return f"[{text}]({up}{BESIDE[name]}{anchor})"
        return match[0] if (ROOT / "docs" / name.removeprefix(up)).exists() else text

    return other.sub(beside, markdown)


def _for_language_models(config: MkDocsConfig) -> Iterator[str]:
    """The form of https://llmstxt.org: a title, a sentence, and the list of pages that docs/index.md is."""
    yield f"# {config.site_name}\n\n> {config.site_description}\n"
    yield "Exit codes, --json: running.html. Every command: reference/commands.html. Python: reference/python.html.\n"
    _, _, pages = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition("\n## ")
    yield "## " + re.sub(r"\(([\w/]+)\.md(#[\w-]*)?\)", r"(\1.html\2)", pages)


def _python() -> Iterator[str]:
    yield "# Python\n\nWhat `import drivetrain as dt` and `drivetrain.components` have; see [client](../client.md).\n"
    for heading, names in PYTHON.items():
        yield f"\n## {heading}\n"
        for name in names:
            yield f"\n::: drivetrain.{name}\n    options: {{heading_level: 3}}\n"


def _commands() -> Iterator[str]:
    from drivetrain.cli.main import GROUPS, app

    yield "# Command line\n\nThe help of each command, as `drivetrain COMMAND --help` prints it.\n"
    context = app.make_context("drivetrain", [], resilient_parsing=True)
    for heading, names in GROUPS.items():
        yield f"\n## {heading}\n"
        for name in names:
            yield from _help(app.get_command(context, name), f"drivetrain {name}", context)


def _help(command: Any, words: str, above: Any) -> Iterator[str]:
    context = command.make_context(words, [], parent=None, resilient_parsing=True, max_content_width=100)
    context.terminal_width = 100
    yield f"\n### `{words}`\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for name in getattr(command, "commands", {}):
        yield from _help(command.commands[name], f"{words} {name}", context)
