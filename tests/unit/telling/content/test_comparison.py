"""What is said of the data and code of runs, by the hashes that each run noted."""

from __future__ import annotations

import re
from dataclasses import replace

from drivetrain.cli.outcome import steps_table
from drivetrain.cli.runs.compare import as_json, comparison_text
from drivetrain.client.comparison import Comparison as Shown
from drivetrain.run_store.model import Artifact, StepRun
from drivetrain.telling import Around
from drivetrain.telling.charts.run_places import run_places
from drivetrain.telling.content import Curve, RunFacts
from drivetrain.telling.content.comparison import Comparison
from drivetrain.telling.content.given import Compared
from drivetrain.telling.page import render
from drivetrain.telling.page.comparison_page import comparison_page


def run(id: str, code: str, target: str = "sagemaker", **read: str) -> Compared:
    """
    Args:
        read: input -> `URI DIGEST`.
    """
    given = {name: text.split() for name, text in read.items()}
    artifacts = tuple(
        Artifact(step="look", flow="input", name=name, uri=uri, digest=digest, files=1, bytes=1)
        for name, (uri, digest) in given.items()
    )
    facts = RunFacts(
        id=id,
        pipeline="p",
        status="Succeeded",
        started=0.0,
        ended=1.0,
        codes={"look": code} if code else {},
        artifacts=artifacts,
    )
    return Compared(facts=facts, target=target, given={"epochs": 2 if target == "sagemaker" else 3})


def test_artifacts_are_compared_by_content_and_unknown_content_is_marked() -> None:
    one = run("one", "c", data="s3://b/one d", other="s3://b/x e", model="s3://b/m.tar.gz f", extra="s3://b/y g")
    two = run("two", "", "kubeflow", data="s3://b/two d", other="s3://b/z h", model="s3://b/m i")
    found = Comparison(runs=(one, two))
    assert found.data == {"look.other": ("e", "h")}
    assert found.data_not_comparable == ("look.model", "look.extra")
    assert found.same_code is None
    assert list(found.settings) == ["target platform", "epochs"]
    text = comparison_text(found)
    assert "Data that differs: look.other\n" in text and "Code: not comparable" in text
    assert re.search(r"(?m)^SETTING  +one  +two$", text)  # ids as they are typed
    assert "Data that is not comparable: look.model, look.extra (" in text
    assert "data of look.model: not comparable" in repr(Shown(found)) and "code: not comparable" in repr(Shown(found))
    assert "not comparable</td>" in comparison_page(found)


def test_starting_points_are_compared_except_for_cached_trainings() -> None:
    def trained(id: str, start: str, cache_of: str | None = None) -> Compared:
        step = StepRun(name="train", type="Training", title="train", status="Succeeded", value=start, cache_of=cache_of)
        return replace(run(id, "c"), facts=replace(run(id, "c").facts, steps=(step,)))

    one = trained("one", "starts from nothing (there is no earlier model)")
    two = trained("two", "starts from digits version 7 at step 12, the same data; 3 of 5 epochs", cache_of="zero")
    found = Comparison(runs=(one, two))
    starts = ("nothing (there is no earlier model)", "digits version 7 at step 12, the same data")
    assert found.settings == {"train starts from": starts}
    assert "digits version 7 at " in comparison_text(found) and starts[1] in comparison_page(found)
    assert as_json(found)["settings"] == found.settings
    assert starts[0] in render(one.facts) and starts[0] in steps_table(one.facts)
    for shown in (render(two.facts), steps_table(two.facts)):
        assert starts[1] not in shown and "3 of 5 epochs" in shown and "zero" in shown


def test_two_differing_runs_of_three_make_a_difference() -> None:
    runs = (run("one", "c", data="s3://b/x d"), run("two", "", data="s3://b/x.tgz e"), run("three", "k"))
    more = run("four", "c", data="s3://b/y f")
    assert Comparison(runs=runs).same_code is False
    assert Comparison(runs=runs).data == {} and Comparison(runs=runs).data_not_comparable == ("look.data",)
    assert Comparison(runs=(*runs, more)).data == {"look.data": ("d", "e", None, "f")}
    alike = Comparison(runs=(runs[0], runs[0]))
    assert (alike.data, alike.data_not_comparable, alike.same_code, alike.settings) == ({}, (), True, {})


def test_code_is_compared_step_by_step() -> None:
    """A branch that one run did not take has no code there, and says nothing of the others."""
    one, two = (replace(run(name, "").facts, codes=codes) for name, codes in CODES.items())
    assert one.code_hash not in ("a", "b", two.code_hash) and two.code_hash == "a"
    compared = tuple(Compared(facts=facts, target="local", given={}) for facts in (one, two))
    assert Comparison(runs=compared).same_code is True
    other = Compared(facts=replace(two, codes={"train": "b"}), target="local", given={})
    assert Comparison(runs=(*compared, other)).same_code is False


CODES = {"one": {"train": "a", "register": "b"}, "two": {"train": "a"}}


def test_charts_are_chosen_and_runs_keep_their_style() -> None:
    points = ((1.0, 2.0), (2.0, 1.0))
    curves = tuple(Curve(step="fit", name=name, points=points) for name in ("loss", "<i>mae"))
    runs = [run(id, "c") for id in ("one", "two")]
    runs = [replace(each, facts=replace(each.facts, curves=curves)) for each in runs]
    served = Around(links=(), scripts=("/live.js",))
    text = comparison_page(Comparison(runs=tuple(runs)), served, ["fit.loss"])
    drawn = re.findall(r"<figcaption><b>(.*?)</b>", text)
    assert drawn == ["loss"] and 'value="fit.&lt;i&gt;mae"/>' in text and 'value="fit.loss" checked=""' in text
    assert "<i>mae" not in text and text.count('name="run"') == 2
    for each, place in run_places(["two", "one"]).items():
        assert f'<i class="key s{place}"></i> <code>{each}</code>' in text
        assert f'<i class="key s{place}"></i> {each} ' in text
    page = comparison_page(Comparison(runs=tuple(runs)))
    assert len(re.findall("<figcaption>", page)) == 2 and "<form" not in page
