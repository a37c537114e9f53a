"""The section of the page that tells of the tunings of a run: the best training, pictures, and all of them in a
table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from drivetrain.base.formatting import duration, number, status_class
from drivetrain.base.markup import Content, Markup, el
from drivetrain.run_store.events import unhealthy_part
from drivetrain.telling import Cell, Row, scrolled, section, table, tile
from drivetrain.telling.charts.tuning_charts import by_epoch, by_parameter, by_training
from drivetrain.telling.content.tuning import TrainingFacts, TuningFacts

MAX_CHARTS = 8
MAX_COLUMNS = 8
MAX_ROWS = 500
# What is shown of a long table before the reader asks for the rest.
NUM_FIRST = 10
_WORDS = {"Completed": "succeeded", "Stopped": "stopped early", "Failed": "failed", "InProgress": "running"}
_CLASSES = {"Completed": "Succeeded", "InProgress": "Executing"}


def draw(tunings: Sequence[TuningFacts]) -> Markup:
    """All tunings of a run."""
    blocks = [[el("h3", one.step) if len(tunings) > 1 else None, _tuning(one)] for one in tunings]
    return section("Tuning", blocks, id="tuning")


def _tuning(tuning: TuningFacts) -> list[Content]:
    names = list(dict.fromkeys(name for one in tuning.trainings for name in one.parameters))
    pictures: list[Content] = []
    if tuning.ranked():
        charts = [by_parameter(tuning, name) for name in names[:MAX_CHARTS]]
        epochs = by_epoch(tuning)
        pictures = [
            el("div", by_training(tuning), class_="scroll", tabindex=0),
            el("div", [epochs] if epochs is not None else [], charts, class_="charts"),
        ]
        if len(names) > MAX_CHARTS:
            pictures.append(el("p", f"{MAX_CHARTS} of {len(names)} hyperparameters are drawn; the table has them all."))
    return [
        el("div", _tiles(tuning), class_="tiles tuning-tiles"),
        *pictures,
        el("h3", "Trainings"),
        *_tables(tuning, names),
        _method(tuning),
    ]


def _tiles(tuning: TuningFacts) -> list[Markup]:
    best = tuning.best
    ended = [one for one in tuning.trainings if one.status != "InProgress"]
    of = "" if tuning.most is None or len(ended) == tuning.most else f"of at most {tuning.most}"
    counted = [(sum(one.status == status for one in ended), word) for status, word in _WORDS.items()]
    parts = [f"{number_of} {word}" for number_of, word in counted if number_of and word != "succeeded"]
    tiles = [tile("Trainings", f"{len(ended)}", ", ".join([of, *parts] if of else parts))]
    if best is not None:
        tiles.insert(0, tile(f"Best {tuning.metric}", number(best.objective or 0.0), f"training {best.label}"))
        tiles += [tile(name, _value(text), "of the best") for name, text in list(best.parameters.items())[:4]]
    return tiles


def _tables(tuning: TuningFacts, names: Sequence[str]) -> list[Content]:
    """The best first; then those without an objective, in their order. A long table is folded."""
    every = [*tuning.ranked(), *(one for one in tuning.trainings if one.objective is None)]
    if len(every) <= NUM_FIRST + 2:
        return [scrolled(_table(tuning, every, names))]
    more = f", the first {MAX_ROWS} of them" if len(every) > MAX_ROWS else ""
    return [
        scrolled(_table(tuning, every[:NUM_FIRST], names)),
        el(
            "details",
            el("summary", f"All {len(every)} trainings{more}"),
            scrolled(_table(tuning, every[:MAX_ROWS], names)),
        ),
    ]


def _table(tuning: TuningFacts, rows: Sequence[TrainingFacts], names: Sequence[str]) -> Markup:
    shown, rest = names[:MAX_COLUMNS], names[MAX_COLUMNS:]
    best = tuning.best

    def label(one: TrainingFacts) -> Content:
        return [one.label, el("small", " best") if one is best else None]

    def objective(one: TrainingFacts) -> Cell:
        return Cell("–" if one.objective is None else number(one.objective), name=tuning.metric)

    def more(one: TrainingFacts) -> str:
        return ", ".join(f"{name} {_value(one.parameters[name])}" for name in rest if name in one.parameters)

    columns: list[tuple[str, Callable[[TrainingFacts], Content | Cell]]] = [
        ("Training", label),
        *([("Definition", attrgetter("definition"))] if any(one.definition for one in rows) else []),
        ("Status", _status),
        (tuning.metric, objective),
        *((name, partial(_parameter, name)) for name in shown),
        *([("More", more)] if rest else []),
        ("Time", lambda one: duration(one.seconds)),
        *([("Why", lambda one: Cell(one.reason, "why"))] if any(one.reason for one in rows) else []),
    ]
    body = [Row([cell(one) for _, cell in columns], "is-best" if one is best else None) for one in rows]
    right = {tuning.metric, *shown, "Time"}
    return table([name for name, _ in columns], body, right=right, style="trainings stacked")


def _status(one: TrainingFacts) -> Markup:
    unhealthy = one.status == "Completed" and unhealthy_part(one.reason)
    word = "unhealthy" if unhealthy else _WORDS.get(one.status, one.status)
    kind = "Unhealthy" if unhealthy else _CLASSES.get(one.status, one.status)
    return el("span", word, class_=f"status {status_class(kind)}")


def _parameter(name: str, one: TrainingFacts) -> Cell:
    text = one.parameters.get(name)
    return Cell(el("code", _value(text), title=text) if text else "–", name=name)


def _method(tuning: TuningFacts) -> Markup:
    kind = "highest" if tuning.maximize else "lowest"
    told = [f"{tuning.strategy} search for the {kind} {tuning.metric}" if tuning.strategy else f"the {kind} is best"]
    told += ["trainings that fall behind the median are stopped early"] if tuning.early_stopping else []
    told += [f"seed {tuning.seed}"] if tuning.seed is not None else []
    told += [f"it ended because {tuning.over}"] if tuning.over else []
    sentence = "; ".join(told)
    return el("p", f"{sentence[:1].upper()}{sentence[1:]}.", [[" ", note] for note in tuning.notes], class_="method")


def _value(text: str) -> str:
    """Short enough for a table; the pointer that rests on it shows all of it."""
    try:
        found = float(text)
    except ValueError:
        plain = text.strip('"')
        return plain if len(plain) <= 40 else plain[:39] + "…"
    return text if len(text) <= 7 else number(found)
