from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from typing import Any

import pytest

from drivetrain.run_store.model import Artifact, StepRun
from drivetrain.telling import Around
from drivetrain.telling import page as page_module
from drivetrain.telling.content import Curve, Measured, ModelFacts, RunFacts, SavedState
from drivetrain.telling.content.decision import DecisionFacts, decision
from drivetrain.telling.content.evaluation import EvaluationFacts, Measure, evaluation
from drivetrain.telling.content.goodput import Interruption, JobTimes
from drivetrain.telling.dag import Dag, Edge, Node
from drivetrain.telling.page import Drawn, render

CANARY = '<script>alert("canary")</script>'
START = 1_795_000_000.0
VOID = {"meta", "br", "hr", "img", "link", "path", "rect", "circle", "line", "polygon"}


class Page(HTMLParser):
    """The page as a browser takes it: every element closed, texts by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "title"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def step(name: str, kind: str, status: str, **more: Any) -> StepRun:
    return StepRun(name=name, type=kind, title=more.pop("title", name), status=status, **more)


def run(**changes: Any) -> RunFacts:
    steps = (
        step("prepare", "Processing", "Cached", cache_of="20261101-080000-aaaa"),
        step("train", "Training", "Succeeded", started=START + 1, ended=START + 23.3, attempts=2,
             why=("epochs 10 -> 12",)),
        step("evaluate", "Processing", "Succeeded", started=START + 24, ended=START + 26, attempts=1),
        step("gate", "Condition", "Succeeded", started=START + 26, ended=START + 26, value="yes"),
        step("register", "RegisterModel", "Succeeded", started=START + 26, ended=START + 26.1,
             value="version 3"),
        step("stop", "Fail", "NotExecuted"),
    )  # fmt: skip
    dag = Dag.build(
        [Node(s.name, s.type, s.title, s.status) for s in steps],
        [Edge("prepare", "train"), Edge("train", "evaluate"), Edge("evaluate", "gate"),
         Edge("gate", "register", label="yes"), Edge("gate", "stop", label="no")],
    )  # fmt: skip
    facts = RunFacts(
        id="20261120-221455-3f9a",
        pipeline="retraining",
        status="Succeeded",
        started=START,
        ended=START + 26.1,
        definition_hash="d" * 64,
        codes={"train": "c" * 64},
        parameters={"MinAccuracy": 0.97, "ApiToken": "***"},
        steps=steps,
        dag=dag,
        curves=(Curve(step="train", name="train_loss", points=((1.0, 2.0), (2.0, 0.5))),),
        measured=(Measured(step="evaluate", numbers={"accuracy": 0.9778, "accuracy_class_0": 1.0, "loss": 0.09}),),
        artifacts=(
            Artifact(step="prepare", flow="input", name="raw", uri="s3://b/raw.csv", digest="a" * 64, files=1,
                          bytes=64_000),
            Artifact(step="train", flow="input", name="train", uri="s3://b/train", digest="b" * 64, files=3,
                          bytes=1, from_step="prepare", from_execution="20261101-080000-aaaa"),
        ),
        models=(
            ModelFacts(group="retraining", version=3, status="PendingManualApproval", model_uri="s3://b/model.tar.gz",
                       content_hash="9" * 64, numbers={"accuracy": 0.9778}, registered_by="20261120-221455-3f9a"),
        ),
        environment={"python": "3.11.7"},
        written=START + 30,
    )  # fmt: skip
    return dataclasses.replace(facts, **changes)


def test_the_page_parses_and_shows_the_facts() -> None:
    page = Page(render(run()))
    assert page.open == []
    for fact in (
        "retraining", "succeeded", "20261120-221455-3f9a", "26.1 s", "5 of 6", "1 from the cache",
        "epochs 10 -> 12", "taken from 20261101-080000-aaaa", "not run", "MinAccuracy 0.97", "ApiToken ***",
        "0.9778", "accuracy by class", "retraining version 3", "waiting for approval", "s3://b/model.tar.gz",
        "s3://b/raw.csv", "prepare of 20261101-080000-aaaa", "64.0 kB, 1 file", "python 3.11.7", "c" * 64, "d" * 64,
        "version 3",
    ):  # fmt: skip
        assert fact in page.text, fact


def test_the_first_tile_of_numbers_is_the_metric_that_decides() -> None:
    measures = {name: Measure(name=name, value=0.5) for name in ("accuracy", "f1", "recall_at_95", "loss")}
    evaluated = EvaluationFacts(step="evaluate", measures=measures)
    decided = DecisionFacts(step="compare", verdict="register", metric="recall_at_95")
    tiles = render(run(evaluations=(evaluated,), decisions=(decided,))).partition('class="tiles"')[2]
    assert (
        tiles.index("recall at 95, decides") < tiles.index("loss") and "accuracy" not in tiles.partition("</header>")[0]
    )
    numbers = Measured(step="score", numbers={"accuracy": 0.5, "num_samples": 3.0, "price": 0.25})
    tiles = render(run(measured=(numbers,), read_by_conditions=frozenset({"price", "value"})))
    assert tiles.index("<span>price, decides") < tiles.index("<span>accuracy<")
    # After a comparison a condition reads what that came to, which is no metric.
    decided = DecisionFacts(step="c", metric="price")
    facts = run(decisions=(decided,), read_by_conditions=frozenset({"register"}))
    assert facts.deciding == {"price"}


def test_charts_are_chosen_on_a_served_page_only() -> None:
    points = ((1.0, 2.0), (2.0, 0.5))
    curves = tuple(Curve(step="train", name=name, points=points) for name in ("train_loss", "mae", "epoch"))
    served = Around(links=(), scripts=("/live.js",))
    page = render(run(curves=curves), around=served, charts=("train.mae",))
    assert "<figcaption><b>mae</b>" in page and "<figcaption><b>loss</b>" not in page
    assert 'value="train.mae" checked=""' in page and 'value="train.train_loss"/>' in page
    assert 'value="train.epoch"' not in page
    none = render(run(curves=curves), around=served, charts=("no.such",))
    assert 'value="train.mae"/>' in none and "<figcaption><b>mae</b>" not in none
    assert 'name="chart"' not in render(run(curves=curves))


def test_a_section_is_redrawn_when_its_content_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, pictures = Drawn(), list[str]()
    dag_svg = page_module.dag_svg
    monkeypatch.setattr(page_module, "dag_svg", lambda dag, title: pictures.append(title) or dag_svg(dag, title=title))
    before, same = run(), run()
    more = run(curves=(Curve(step="train", name="train_loss", points=((1.0, 2.0), (2.0, 0.5), (3.0, 0.125))),))
    other = run(dag=Dag.build([Node("train", "Training", "train", "Executing")], []), curves=())
    pages = [render(facts, drawn=drawn) for facts in (before, same, more, other)]
    assert len(pictures) == 2  # of the steps as they were at first, and of those at the end
    assert pages == [render(facts) for facts in (before, same, more, other)]
    assert pages[0] == pages[1] and "to 0.1250" in pages[2] and "to 0.1250" not in pages[1]


def test_the_page_loads_nothing_and_runs_no_script() -> None:
    page = Page(render(run()))
    assert not any(tag in ("script", "link", "iframe", "img", "object", "base") for tag, _ in page.tags)
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "action"):
                raise AssertionError((name, value))
    policies = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies and policies[0] is not None and "default-src 'none'" in policies[0]
    assert "url(http" not in render(run()) and "@import" not in render(run())


def test_names_are_escaped() -> None:
    """Every text field of the facts, nested ones too, replaced by a canary."""

    def poisoned(value: Any) -> Any:
        if isinstance(value, str):
            return CANARY + value
        if isinstance(value, tuple):
            return tuple(poisoned(item) for item in value)
        if isinstance(value, dict):
            return {poisoned(key): poisoned(item) for key, item in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(
                value, **{field.name: poisoned(getattr(value, field.name)) for field in dataclasses.fields(value)}
            )
        return value

    times = JobTimes(step="train", interruptions=(Interruption(reason="taken back"),))
    saved = {"train": SavedState(training_step=1, uri="s3://b/x/")}
    more = {"environment": {"a": "b"}, "ended_early": {"train": "early"}, "job_times": (times,), "goes_on_from": saved}
    text = render(poisoned(run(reason="stopped", **more)))
    page = Page(text)
    assert "<script" not in text.lower()
    assert not any(tag == "script" for tag, _ in page.tags)
    assert page.text.count(CANARY) > 30


def test_a_failed_run_shows_what_went_wrong_first() -> None:
    reason = "Traceback (most recent call last):\n  ...\nValueError: too few rows"
    failed = step("train", "Training", "Failed", started=START, ended=START + 2, attempts=1, reason=reason)
    page = Page(render(run(status="Failed", steps=(failed,), models=(), measured=(), reason=f"train: {reason}")))
    assert "What went wrong train failed Traceback" in page.text
    assert page.text.count("ValueError: too few rows") == 1
    assert page.text.index("What went wrong") < page.text.index("Pipeline")


def test_a_failed_step_does_not_blame_the_cache() -> None:
    failed = step("train", "Training", "Failed", started=START, ended=START + 2, attempts=1,
                  reason="ValueError: too few rows", why=("epochs 10 -> 12",))  # fmt: skip
    assert "epochs 10 -> 12" not in Page(render(run(status="Failed", steps=(failed,)))).text


def test_paths_are_those_of_the_user() -> None:
    reason = "error: /opt/ml/input/data/train/part-00000.parquet is no Parquet file"
    failed = step("train", "Training", "Failed", started=START, ended=START + 2, reason=reason)
    page = Page(render(run(status="Failed", steps=(failed,), reason=f"train: {reason}")))
    assert "train/part-00000.parquet is no Parquet file" in page.text and "/opt/ml" not in page.text


def test_hashes_in_paths_are_cut_and_complete_in_the_tooltip() -> None:
    uri = f"s3://b/data/{'e4fb9c98' * 8}/digits.csv"
    artifact = Artifact(step="prepare", flow="input", name="raw", uri=uri, digest="", files=1, bytes=1)
    page = Page(render(run(artifacts=(artifact,))))
    assert "s3://b/data/e4fb9c98…/digits.csv" in page.text and uri not in page.text
    assert uri in [attributes.get("title") for _, attributes in page.tags]


def test_early_stopping_is_shown_in_the_training_section() -> None:
    told = "early stopping: validation_loss was best at step 40 (0.1), and the 3 validations since were no better"
    page = Page(render(run(ended_early={"train": told})))
    assert page.text.index("Training " + told) < page.text.index("Results")
    assert told in Page(render(run(curves=(), ended_early={"train": told}))).text


def test_a_failed_training_shows_its_resume_point() -> None:
    failed = step("train", "Training", "Failed", started=START, ended=START + 2, reason="lost its machine")
    saved = SavedState(training_step=1200, uri="s3://b/checkpoints/x/step-00001200/")
    page = Page(render(run(status="Failed", steps=(failed,), goes_on_from={"train": saved})))
    assert "train goes on from step 1,200: s3://b/checkpoints/x/step-00001200/" in page.text


def test_interruptions_have_a_section() -> None:
    times = JobTimes(step="train", spot=True, interruptions=(Interruption(seconds_down=3.0, reason="taken back"),))
    assert "Spot machines Interruptions 1" in Page(render(run(job_times=(times,)))).text
    own = dataclasses.replace(times, spot=False)
    assert "train Interruptions 1" in Page(render(run(job_times=(own, own)))).text
    assert "Interruptions" not in Page(render(run())).text


def test_a_running_run_counts_until_now() -> None:
    going = step("train", "Training", "Executing", started=START + 1, attempts=1)
    page = Page(render(run(status="Executing", ended=None, steps=(going,), models=(), measured=())))
    assert "running" in page.text and "30.0 s so far" in page.text


def test_statuses_are_words_and_not_only_colours() -> None:
    page = Page(render(run()))
    labels = [a.get("aria-label") or "" for tag, a in page.tags if tag == "svg"]
    assert any("Steps of retraining" in label for label in labels)
    assert "cached" in page.text and "succeeded" in page.text and "not run" in page.text


def test_an_empty_run_is_a_page_too() -> None:
    page = Page(render(RunFacts(id="x", pipeline="empty", status="Failed", started=START, ended=START)))
    assert page.open == [] and "empty" in page.text


def test_steps_beyond_the_picture_stay_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MAX_NODES", 2)
    page = Page(render(run()))
    assert "too many for one picture" in page.text and "register" in page.text


def iterated(many: int, failing: tuple[int, ...] = ()) -> tuple[StepRun, ...]:
    """A ForEach and one step of each of its iterations."""
    inner = [
        step(f"part-{n}", "Training", "Failed" if n in failing else "Succeeded", title=f"part [{n}]", parent="each",
             item=f"shard-{n}", reason="no such shard" if n in failing else None, settings={"shard": str(n)})
        for n in range(many)
    ]  # fmt: skip
    return (step("each", "ForEach", "Failed" if failing else "Succeeded"), *inner)


def test_many_iterations_are_folded_and_complete() -> None:
    text = render(run(steps=iterated(150)))
    steps = text[text.index(">Tries<") : text.index(">Parameters<")]
    opened, _, folded = steps.partition("<details")
    assert Page(text).open == []
    assert [n for n in range(150) if f"shard-{n}<" in opened] == [0, 1, 2]
    assert [n for n in range(150) if f"shard-{n}<" in folded] == list(range(150))
    assert "each: all 150 steps of its iterations" in folded
    settings = text[text.index(">Parameters<") :]
    assert "Of part [" not in settings.partition("<details")[0]
    assert settings.count("Of part [") == 150


def test_failed_iterations_of_many_are_shown() -> None:
    text = render(run(status="Failed", steps=iterated(150, failing=(7, 99))))
    steps = text[text.index("Tries") :].partition("<details")
    assert [n for n in range(150) if f"shard-{n}<" in steps[0]] == [7, 99]
    assert steps[0].count("no such shard") == 2
    assert "all 150 steps of its iterations, 148 of them succeeded" in steps[2]


def test_the_first_of_many_failures_are_listed_and_the_rest_counted() -> None:
    page = Page(render(run(status="Failed", steps=iterated(150, failing=tuple(range(40, 60))))))
    assert "part [49] failed" in page.text and "part [50] failed" not in page.text
    assert "10 more failed" in page.text


def test_a_few_iterations_are_not_folded() -> None:
    text = render(run(steps=iterated(12)))
    assert "of its iterations" not in text
    assert all(f"shard-{n}<" in text for n in range(12))


def test_evaluations_and_decisions_have_their_own_sections(
    evaluation_json: dict[str, Any], decision_json: dict[str, Any]
) -> None:
    found, decided = evaluation("evaluate", evaluation_json, {}), decision("compare", decision_json)
    measured = (
        Measured(step="evaluate", numbers={"accuracy": 0.9, "auroc_macro_bound": 2e-6}),
        Measured(step="compare", numbers={"register": 1, "better": 1}),
        Measured(step="other", numbers={"rows": 7}),
    )
    page = Page(render(run(evaluations=(found,), decisions=(decided,), measured=measured)))
    assert page.open == []
    parts = ("Register: accuracy 0.9000 against", "Duration", "Decision", "Pipeline", "Evaluation",
             "Returned by other", "Registered model")  # fmt: skip
    order = [page.text.index(told) for told in parts]
    assert order == sorted(order)
    assert "Returned by evaluate" not in page.text and "Returned by compare" not in page.text
    assert "accuracy 0.9000 0.8900 to 0.9100" in page.text, "a tile with its interval"
    assert "auroc macro bound" not in page.text


def test_without_findings_the_page_is_unchanged() -> None:
    text = render(run())
    assert "verdict" not in text and "Returned by evaluate" in text and 'id="decision' not in text


def test_a_decision_that_cannot_be_read_is_one_line_and_the_numbers_stay() -> None:
    measured = (Measured(step="compare", numbers={"register": 1}),)
    broken = DecisionFacts(step="compare", problem="decision.json is no JSON")
    page = Page(render(run(decisions=(broken,), measured=measured)))
    assert page.text.count("The decision of compare cannot be shown: its decision.json is no JSON.") == 1
    assert "Returned by compare" in page.text


def test_a_model_with_many_numbers_names_the_first() -> None:
    model = ModelFacts(group="m", version=1, status="Approved", numbers={f"n{place}": 1.0 for place in range(40)})
    assert "n11 1.000, 28 more" in Page(render(run(models=(model,)))).text
