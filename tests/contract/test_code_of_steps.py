"""An edit runs those steps again whose program imports the edited file, on every target and on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.assets import assets
from drivetrain.authoring.loading import load
from drivetrain.cli import main
from drivetrain.targets.target import find_target

PIPELINE = """
from drivetrain import Pipeline, step
from shop_steps.forecast import forecast
from shop_steps.load import load
from shop_steps.search import search


def shop() -> Pipeline:
    table = step(load)
    trees = step(search, table=table["table"])
    last = step(forecast, table=table["table"], trees=trees.metric("trees"))
    return Pipeline(name="shop", steps=[table, trees, last])
"""
FILES = {
    "shop.py": PIPELINE,
    "shop_steps/load.py": """
from drivetrain.components import Output, component

@component
def load(table: Output) -> None:
    (table / "rows.txt").write_text("1 2 3")
""",
    "shop_steps/search.py": """
from drivetrain.components import Input, component
from shop_steps.scores import best

@component
def search(table: Input) -> dict[str, float]:
    return {"trees": best((table / "rows.txt").read_text())}
""",
    "shop_steps/scores.py": "def best(text):\n    return max(map(int, text.split()))\n",
    "shop_steps/forecast.py": """
from drivetrain.components import Input, component

@component
def forecast(table: Input, trees: float) -> dict[str, float]:
    return {"forecast": 10 * trees}
""",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shop_steps").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "shop_steps")]:
        del sys.modules[name]


def edit(file: Path) -> None:
    file.write_text(f"{file.read_text(encoding='utf-8')}\n# edited\n", encoding="utf-8")


def steps_of(folder: Path, target: str) -> dict[str, str]:
    """Step -> all that a target's definition says of it, as JSON."""
    loaded = load(str(folder / "shop.py"))
    compiled: Any = find_target(target).compile(loaded.pipeline, loaded.source, loaded.base)
    if target == "sagemaker":
        return {step["Name"]: json.dumps(step) for step in compiled.definition["Steps"]}
    executors = compiled.ir["deploymentSpec"]["executors"]
    return {
        name: json.dumps([executors[f"exec-{name}"], compiled.ir["components"][f"comp-{name}"]])
        for name in ("load", "search", "forecast")
    }


@pytest.mark.parametrize("target", ["sagemaker", "kubeflow"])
def test_an_edit_does_not_change_the_definition_of_other_steps(shop: Path, target: str) -> None:
    before = steps_of(shop, target)
    edit(shop / "shop_steps" / "scores.py")
    after = steps_of(shop, target)
    assert {name for name in after if after[name] != before[name]} == {"search"}
    edit(shop / "shop.py")  # which no step imports
    assert steps_of(shop, target) == after


@pytest.mark.parametrize("target", ["sagemaker", "kubeflow"])
def test_a_package_edit_does_not_change_steps_that_do_not_use_it(
    shop: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "shop_steps" / "search.py").write_text(
        f"from drivetrain.training.metric_states import texts\n{FILES['shop_steps/search.py']}", encoding="utf-8"
    )
    before = steps_of(shop, target)
    content = assets._content
    for room, changed in (("training/metric", {"search"}), ("components/train.", set[str]()), ("steps/", {*before})):
        part = f"drivetrain/{room}" if room.startswith("training/") else room
        assets._own_parts.cache_clear()
        assets._own_stamp.cache_clear()
        monkeypatch.setattr(assets, "known_hash", lambda key: None)
        monkeypatch.setattr(assets, "keep_hash", lambda key, sha256: None)
        monkeypatch.setattr(assets, "_content", lambda path, part=part: content(path) + b"#" * (part in path))
        after = steps_of(shop, target)
        assert {name for name in after if after[name] != before[name]} == changed, room
    assets._own_parts.cache_clear()


def ran(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """Step -> how it ended and why it ran, of a run of the pipeline."""
    assert main.run(["run", "shop.py", "--home", "home", "--json", "--explain-cache"]) == 0
    found: dict[str, tuple[str, str]] = {}
    reasons: dict[str, str] = {}
    for line in capsys.readouterr().out.splitlines():
        event = json.loads(line)
        if event.get("event") == "cache_explained":
            reasons[event["step"]] = "" if event["hit"] else ", ".join(event["reasons"])
        elif event.get("event") == "step_finished":
            found[event["step"]] = (event["status"], reasons.get(event["step"], ""))
    return found


def test_an_edit_reruns_importing_steps_and_names_the_file(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {status for status, _ in ran(capsys).values()} == {"Succeeded"}
    edit(shop / "shop_steps" / "scores.py")  # what search gives stays, so forecast has nothing new
    assert ran(capsys) == {
        "load": ("Cached", ""),
        "search": ("Succeeded", "code: shop_steps/scores.py edited"),
        "forecast": ("Cached", ""),
    }
    edit(shop / "shop.py")
    assert {status for status, _ in ran(capsys).values()} == {"Cached"}
    (shop / "shop_steps" / "search.py").write_text(
        FILES["shop_steps/search.py"].replace("best(", "1 + best("), encoding="utf-8"
    )
    again = ran(capsys)
    assert again["search"] == ("Succeeded", "code: shop_steps/search.py edited")
    assert again["forecast"] == ("Succeeded", "trees 3 -> 4") and again["load"][0] == "Cached"
    (shop / "shop_steps" / "forecast.py").write_text(
        "import importlib\nimportlib.import_module(str('json'))\n" + FILES["shop_steps/forecast.py"]
    )
    [why] = [said for name, (_, said) in ran(capsys).items() if name == "forecast"]
    assert "shop_steps/forecast.py edited" in why and "shop_steps/load.py is new" in why
    assert why.endswith("(every file of the folder counts, since shop_steps/forecast.py, line 2: import_module)")
