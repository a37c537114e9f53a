"""The pages of all runs and models as files."""

from __future__ import annotations

import os
import re
from contextlib import chdir
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.base.errors import UserError
from drivetrain.operations.site import write_site
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.record import ModelRecord
from drivetrain.run_store.home import Home
from drivetrain.run_store.removing import plan_removal, remove
from tests.fixtures.many_runs import write_runs
from tests.unit.client.test_client import FILE


def links_of(file: Path) -> list[Path]:
    return [(file.parent / link).resolve() for link in re.findall(r'href="([^"#]+)"', file.read_text())]


def test_every_link_of_a_site_leads_to_a_file_and_nothing_runs_in_it(tmp_path: Path) -> None:
    (tmp_path / "site_runs.py").write_text(FILE)
    with chdir(tmp_path):
        first, second = (dt.run("site_runs.py", quiet=True, rows=rows, least=0.9) for rows in (3, 4))
        home, site = Home(), tmp_path / "site"
        assert write_site(home, {}, site) == 2
        files = [site / "index.html", site / "models.html", *(site / f"runs/{run.id}.html" for run in (first, second))]
        assert sorted(site.rglob("*.html")) == sorted(files)
        for file in files:
            assert all(link.is_file() for link in links_of(file)), file
            assert "<script" not in file.read_text() and "<form" not in file.read_text()
        assert files[2].resolve() in links_of(files[0]) and "No model is registered yet" in files[1].read_text()
        assert write_site(home, {}, site) == 0  # both have ended before
        registry = LocalRegistry(home.ledger)
        registry.register("small", "a" * 64, ModelRecord(), metrics={"accuracy": 0.5}, execution=second.id)
        write_site(home, {"small": registry.versions("small")}, site)
        card = (site / "models" / "small-1.html").resolve()
        assert card in links_of(files[1]) and {files[1].resolve(), files[3].resolve()} <= set(links_of(card))
        assert ">accuracy</th>" in card.read_text() and all(link.is_file() for link in links_of(card))
        remove(home, plan_removal(home, [first.id]))
        assert write_site(home, {}, site) == 0 and not files[2].exists()


def test_a_long_list_has_several_pages(tmp_path: Path) -> None:
    home, site = Home(tmp_path / "home"), tmp_path / "site"
    write_runs(home, 401)
    (site / "runs").mkdir(parents=True)
    (site / ".drivetrain-site").touch()
    for number in range(401):  # written before: the list is what is tested
        (site / f"runs/{number:012d}.html").touch()
    (site / "runs-9.html").touch()
    write_site(home, {}, site)
    assert sorted(file.name for file in site.glob("runs-*.html")) == ["runs-2.html", "runs-3.html"]
    assert site / "runs-3.html" in links_of(site / "runs-2.html") and site / "index.html" in links_of(
        site / "runs-2.html"
    )
    assert "000000000000" in (site / "runs-3.html").read_text()


def test_a_folder_with_foreign_files_is_not_changed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"holds something else. Give an empty folder"):
        write_site(Home(tmp_path / "home"), {}, other)
    assert os.listdir(other) == ["thesis.txt"]
