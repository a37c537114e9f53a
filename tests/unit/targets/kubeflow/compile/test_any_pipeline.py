"""Whatever can be expressed compiles to IR in which our checker finds nothing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain import Parameter, Pipeline, current_item, execution, fail, for_each, join, largest, register, step, when
from drivetrain.spec.steps import flatten
from drivetrain.targets.kubeflow.compile import checks
from drivetrain.targets.kubeflow.compile.compile import compile_pipeline
from drivetrain.targets.kubeflow.ir.check import problems, read
from tests.fixtures.kubeflow_examples import fit, load, pipeline, score

PARAMETERS = [
    Parameter.string("Place"),
    Parameter.integer("item", default=3),
    Parameter.number("Least", default=0.5),
    Parameter.string("execution", default="a"),
    Parameter.boolean("Fast", default=False),
]
PLACE, ROWS, LEAST, WHO, FAST = PARAMETERS
SETTINGS: list[dict[str, Any]] = [
    {"checkpoint_claim": "kept"},
    {"checkpoint_claim": "kept", "notices": "hooks/url", "pods": {"secrets": {"A": "b/c"}}},
    {"checkpoint_claim": "kept", "s3_endpoint": "http://minio:9000", "s3_secret": "minio", "root": "s3://own/p"},
]
texts = st.text(min_size=1, max_size=12)


class Draft:
    """A pipeline under construction: what later steps of the same branch can refer to."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.number = 0

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number}"

    def steps(self, known: dict[str, list[Any]], levels: int) -> list[Any]:
        """Some steps, each of which may use what was made before it, here and around it."""
        found: list[Any] = []
        known = {kind: list(steps) for kind, steps in known.items()}
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = [
                "load",
                "score",
                "fit",
                *(["gate", "sweep", "register"] if known["score"] and known["fit"] else []),
            ]
            kind = self.draw(st.sampled_from(kinds[::-1] if levels else kinds[:3]))
            made = getattr(self, kind)(known, levels)
            found.append(made)
            if kind in known:
                known[kind].append(made)
        return found

    def source(self, known: dict[str, list[Any]]) -> Any:
        made = [each["data"] for each in known["load"]] + [each["metrics"] for each in known["score"]]
        return self.draw(st.sampled_from(["s3://own/raw/", "s3://own/more/", PLACE, *made]))

    def after(self, known: dict[str, list[Any]]) -> list[Any]:
        return (
            self.draw(st.lists(st.sampled_from([each for made in known.values() for each in made]), max_size=1))
            if any(known.values())
            else []
        )

    def load(self, known: dict[str, list[Any]], levels: int) -> Any:
        label = self.draw(texts | st.just(WHO) | st.just(join(WHO, "/", execution("PipelineExecutionId"))))
        options = {
            "max_rows": self.draw(st.just(ROWS) | st.integers(0, 9)),
            "fast": self.draw(st.just(FAST) | st.booleans()),
        }
        return step(
            load, name=self.name("load"), raw=self.source(known), label=label, after=self.after(known), **options
        )

    def score(self, known: dict[str, list[Any]], levels: int) -> Any:
        weights = [1.5, LEAST, *(each.metric("weight") for each in known["load"])]
        weight = self.draw(st.sampled_from(weights))
        return step(score, name=self.name("score"), data=self.source(known), weight=weight, after=self.after(known))

    def fit(self, known: dict[str, list[Any]], levels: int) -> Any:
        return step(fit, name=self.name("fit"), data=self.source(known), environment={"WHO": WHO})

    def gate(self, known: dict[str, list[Any]], levels: int) -> Any:
        value = self.draw(st.sampled_from(known["score"])).metric(self.draw(st.sampled_from(["a", "top-1"])))
        logged = self.draw(st.sampled_from(known["fit"])).logged("loss")
        condition = self.draw(
            st.sampled_from(
                [value > LEAST, (value < 1) & (logged < 0.5), WHO.is_in(["a", "it's"]) | ~FAST.equals(True)]
            )
        )
        name = self.name("gate")
        stop = fail(join("only ", value), name=self.name("stop"))
        otherwise = self.draw(st.sampled_from([[], [stop]]))
        return when(condition, then=self.steps(known, levels - 1), otherwise=otherwise, name=name)

    def sweep(self, known: dict[str, list[Any]], levels: int) -> Any:
        model = step(fit, name=self.name("fit"), data=self.source(known), rate=current_item("Float"))
        looked = step(score, name=self.name("score"), data=model["model"], weight=LEAST)
        name = self.name("sweep")
        rates = self.draw(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=1, max_size=3, unique=True))
        return for_each(rates, [model, looked], name=name, max_concurrency=2, best=largest(model.logged("loss")))

    def register(self, known: dict[str, list[Any]], levels: int) -> Any:
        models = [each["model"] for each in known["fit"]] + [each.best["model"] for each in known["sweep"]]
        group = self.draw(st.sampled_from(["digits", WHO]))
        scores = self.draw(st.sampled_from(known["score"]))
        return register(
            name=self.name("register"), model=self.draw(st.sampled_from(models)), metrics=scores, group=group
        )


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    draft = Draft(draw)
    known: dict[str, list[Any]] = {"load": [], "score": [], "fit": [], "sweep": []}
    first = [getattr(draft, kind)(known, 0) for kind in ("load", "score", "fit")]
    known |= {each.name.partition("-")[0]: [each] for each in first}
    steps = [*first, *draft.steps(known, levels=2)]
    return pipeline(*steps, settings=draw(st.sampled_from(SETTINGS)), parameters=PARAMETERS)


@pytest.mark.slow
@settings(max_examples=60)
@given(pipelines())
def test_random_expressible_pipelines_compile_soundly(given: Pipeline) -> None:
    assert checks.check(given) == []
    built = compile_pipeline(given)
    text = built.text
    assert list(map(str, problems(read(text.encode(), "p.yaml")))) == []
    assert [built.ir, *([built.platform] if built.platform else [])] == list(yaml.safe_load_all(text))
    executors = built.ir["deploymentSpec"]["executors"]
    for each in flatten(given.steps):
        name = checks.task_name(each.name)
        assert f"comp-{name}" in built.ir["components"]
        # A fail step that others wait for stands in a DAG of its own.
        own = {f"exec-{name}", f"exec-{name}-reached"} if each.kind == "fail" else {f"exec-{name}"}
        assert bool(own & executors.keys()) == (each.kind not in ("condition", "for-each"))
