"""Train an estimator on prepared data, on any number of processes.

    python -m drivetrain.training_scripts.train_table --train build/train --model build/model --estimator xgboost
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.train_table --train ...

A restarted training goes on from its newest checkpoint, and gives the same model as one that was not interrupted.
"""

from __future__ import annotations

import json
import os
import platform
import signal
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from drivetrain.base.errors import InputError, and_more
from drivetrain.base.json_options import parse_options
from drivetrain.training import estimator as contract
from drivetrain.training import plugins
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.saved_bytes import SavedBytes
from drivetrain.training.estimator import Estimator, Options
from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Finding
from drivetrain.training.input_pipeline.description import describe_data, describe_inputs, statistics_of
from drivetrain.training.launch.cluster import read_cluster
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.launch.processes.parent import die_with_parent
from drivetrain.training.loop.divergence import refuse_divergence
from drivetrain.training.loop.journal import Journal
from drivetrain.training.loop.result import HISTORY_FILE, History
from drivetrain.training.loop.watch import PREFIX, Watch
from drivetrain.training.model_folder import CODE, FRAMEWORK, FUNCTIONS, write_folder
from drivetrain.training.options import build_options
from drivetrain.training.process import Process, join_group
from drivetrain.training.serving.code_folder import code_of_answers
from drivetrain.training.table_config import TableConfig, TableFolders, one_host, parser, refuse_unwatched, versions_of
from drivetrain.training.table_data import Data, open_data
from drivetrain.training.table_health import Explained, TableHealth, columns_of, explain, write_card


def train(config: TableConfig, folders: TableFolders, process: Process) -> None:
    """Train on all processes together; rank 0 prints, keeps checkpoints and writes the model folder.

    Raises:
        InputError: a field, a file or a folder that cannot be; labels or columns that the estimator does not take.
    """
    refuse_unwatched(config, folders)
    estimator: Any = load_estimator(config.estimator)
    installed(estimator.NEEDS, config.estimator)
    most = getattr(estimator, "MOST_PROCESSES", process.world_size)
    if process.world_size > most:
        raise InputError(one_host(config.estimator, process.world_size))
    given = parse_options(config.estimator_options, "estimator_options")
    options: Options = build_options(estimator.Options, given, f"estimator {config.estimator!r}")
    data = open_data(config, folders, options, process)
    journal = Journal(process, folders.output, epochs=config.rounds, total_steps=config.rounds, unit="round")
    stops_early = config.early_stopping > 0
    health = TableHealth(config.health_rules, process, folders.output, journal, stops_early=stops_early)
    state = State(Watch(f"{PREFIX}loss", config.early_stopping, higher_is_better=False))
    with ExitStack() as stack:
        kept: SavedBytes | None = None
        if folders.checkpoints and process.is_main:
            kept = stack.enter_context(SavedBytes(open_place(folders.checkpoints), journal.say))
        values, model = _shared(kept.newest() if kept else None, process)
        state.load(values)
        health.summary.load_state(values)
        fit = data.fit(config, options, process, model, state.number)
        stack.enter_context(journal)
        health.begin(state.number)
        journal.begin(state.number, state.number * len(data.train), state.history)
        for number, losses, save in [] if state.watch.gives_up else estimator.rounds(fit):
            metrics = state.took(number, losses)
            if "train" in losses:
                journal.progress(number - 1, number, number * len(data.train), metrics)
            stops = health.validated(number, metrics) if "train" in losses else None
            ends = number == config.rounds or state.watch.gives_up
            if ends or (kept and number % config.rounds_between_saves == 0):
                model = save()
                if kept:
                    kept.save(number, {**state.as_json(), **health.summary.state()}, model, finished=ends)
            beat()
            if stops and not ends:
                _stop(number, stops, health)
            if ends:
                break
        if state.watch.gives_up:
            journal.say(state.watch.describe())
        if process.is_main:
            assert model is not None  # a training has a round at least
            saved = estimator.until(model, state.best_round(config))
            explained = explain(estimator.explain, saved, data, config.seed) if hasattr(estimator, "explain") else None
            loss = state.best_loss(config)
            if config.early_stopping:  # the last word on the loss, which a tuning goes by
                journal.say(f"the model is that of round {state.best_round(config)}: validation_loss={loss:.6g}")
            names = data.features.names
            importance = dict(zip(names, estimator.importance(saved, len(names)), strict=True))
            moves = importance if any(importance.values()) else {}
            if explained is not None:
                moves = explained.moves
            if stops := health.look(Record(step=state.number, columns=columns_of(moves, data, options, loss))):
                _stop(state.number, stops, health)
            health.finish()
            save_model(config, folders, data, options, estimator, saved, state, process, importance, explained, health)


def _stop(number: int, finding: Finding, health: TableHealth) -> NoReturn:
    """
    Raises:
        InputError: always.
    """
    health.finish()
    raise InputError(f"stopped at round {number} by the health rule {finding.describe()}")


@dataclass
class State:
    """The state of a training besides its model: the rounds that are done, their losses, the best one."""

    watch: Watch
    number: int = 0
    history: History = field(default_factory=list[dict[str, Any]])

    def took(self, number: int, losses: Mapping[str, float]) -> dict[str, float]:
        """Take note of a round; gives its losses by their names.

        Raises:
            InputError: one is not finite.
        """
        self.number, metrics = number, {_NAMES[name]: loss for name, loss in losses.items()}
        refuse_divergence(metrics, number - 1, number)
        if metrics:
            self.history.append({"epoch": number, "step": number, **metrics})
        if self.watch.patience:
            self.watch.improves(number, metrics)
        return metrics

    def best_loss(self, config: TableConfig) -> float | None:
        """The loss on the validation data of the best round."""
        of = {entry["step"]: entry.get(_NAMES["validation"]) for entry in self.history}
        return of.get(self.best_round(config))

    def best_round(self, config: TableConfig) -> int:
        return self.watch.best_step if config.early_stopping else self.number

    def as_json(self) -> dict[str, Any]:
        return {"step": self.number, "history": self.history, "watch": self.watch.state()}

    def load(self, values: Mapping[str, Any]) -> None:
        if values:
            self.number, self.history = values["step"], values["history"]
            self.watch.load_state(values["watch"])


_NAMES = {"train": "train_loss", "validation": f"{PREFIX}loss"}


def _shared(found: tuple[dict[str, Any], bytes] | None, process: Process) -> tuple[dict[str, Any], bytes | None]:
    """Give every rank the checkpoint that rank 0 has found."""
    said = None
    if process.is_main:
        said = b"" if found is None else json.dumps(found[0]).encode() + b"\n" + found[1]
    head, _, model = process.broadcast_bytes(said).partition(b"\n")
    return (json.loads(head), model) if head else ({}, None)


def load_estimator(name: str) -> Estimator:
    """The file of estimators/ of that name, or a module of the user's own.

    Raises:
        InputError: there is no such file, or it has not all that the contract asks for.
    """
    module: Any = plugins.load("estimators", name, kind="estimator", own_modules=True)
    wanted = ("NEEDS", "WEIGHTS", "Options", "rounds", "until", "importance", "load", "predict")
    lacking = [each for each in wanted if not hasattr(module, each)]
    if lacking:
        raise InputError(f"estimator {name!r} ({module.__file__}) lacks {', '.join(lacking)}.")
    return module


def installed(needs: Sequence[str], estimator: str) -> dict[str, str]:
    """The distributions that an estimator imports, and their versions.

    Raises:
        InputError: one of them is not installed.
    """
    found = versions_of(needs)
    if lacking := [need for need in needs if not versions_of((need,))]:
        install = "'drivetrain[trees]'" if estimator in plugins.names("estimators") else " ".join(lacking)
        raise InputError(
            f"estimator {estimator!r} needs {and_more(lacking, 8)}, which is not installed here: pip install {install}"
        )
    return found


def save_model(
    config: TableConfig,
    folders: TableFolders,
    data: Data,
    options: Options,
    estimator: Estimator,
    saved: bytes,
    state: State,
    process: Process,
    importance: Mapping[str, float],
    explained: Explained | None,
    health: TableHealth,
) -> None:
    """Write the model folder, a model of functions whose answers are the estimator's file, and history.json.

    Args:
        saved: the bytes of the model of the best round.
    """
    reader, names, best = data.train, data.features.names, state.best_round(config)
    module: Any = estimator
    inputs = describe_inputs(reader, names)
    inputs["options"].pop("unlabelled", None)  # rows to be predicted have no label
    chosen = next((entry for entry in state.history if entry["step"] == best), {})
    description = {
        FRAMEWORK: FUNCTIONS,
        "answers": module.__name__,
        "style": FUNCTIONS,
        "task": {
            "kind": data.task.kind,
            "num_classes": data.task.num_classes,
            "class_names": list(data.task.class_names),
            "threshold": data.task.threshold,
        },
        contract.TABLE: {
            "estimator": config.estimator,
            "options": asdict(options),
            "features": data.features.as_json(),
            "importance": importance,
            **({} if explained is None else {"explained": explained.as_json()}),
        },
        **health.summary.about_model(),
        "inputs": inputs,
        "columns": names,
        "label": data.label,
        "num_classes": data.task.num_classes if data.classes else None,
        "input_statistics": statistics_of(reader, names),
        "data": describe_data(reader, inputs["reader"], inputs["options"]),
        "needs": installed(estimator.NEEDS, config.estimator),
        "training": {**asdict(config), "world_size": process.world_size, "stopped_early": state.watch.gives_up},
        "step": best,
        "metrics": {name: value for name, value in chosen.items() if name not in ("epoch", "step")},
        "best": {"monitor": state.watch.monitor, "value": state.watch.best, "step": best}
        if config.early_stopping
        else None,
        "versions": {"python": platform.python_version(), "numpy": metadata.version("numpy")},
    }
    # `my_estimators.boosted` in /code/my_estimators/boosted.py: /code
    source = Path(module.__file__).resolve().parents[module.__name__.count(".")]
    description[CODE] = code_of_answers(module.__name__, inputs["reader"], source)
    write_folder(folders.model, saved, description, estimator.WEIGHTS)
    if folders.output:
        folders.output.mkdir(parents=True, exist_ok=True)
        write_card(folders.output, importance, explained)
        marked = [
            {**entry, "best": True} if config.early_stopping and entry["step"] == best else entry
            for entry in state.history
        ]
        (folders.output / HISTORY_FILE).write_text(json.dumps(marked, indent=1) + "\n", encoding="utf-8")


def meet_hosts(environment: MutableMapping[str, str]) -> None:
    """Make the processes of several hosts, which the launcher started one a host, one group: the variables of one."""
    cluster = read_cluster(environment)
    if len(cluster.hosts) > 1 and "RANK" not in environment:
        environment.update(RANK=str(cluster.host_index), WORLD_SIZE=str(len(cluster.hosts)))
        environment.update(MASTER_ADDR=cluster.hosts[0], MASTER_PORT=str(cluster.port))


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        given: dict[str, Any] = vars(parser(__doc__).parse_args())
        folders = TableFolders(**{field.name: given.pop(field.name) for field in fields(TableFolders)})
        config = TableConfig(**given)
        meet_hosts(os.environ)
        with join_group(config.collective_timeout, "") as process:
            train(config, folders, process)

    run_rank(program)


if __name__ == "__main__":
    main()
