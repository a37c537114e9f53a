"""Compare a candidate with the approved champion on the same test set, and decide whether it is registered.

    python -m drivetrain.components.compare --evaluation build/report --model build/model --data build/test \\
        --decision build/decision --metrics build/metrics --group digits --floors '{"accuracy": 0.97}'

The champion is the newest approved version of the group. It is evaluated here, as the candidate was: on the same data,
by the same command and settings, so that the bootstrap replicates of both are paired. A group without an approved
version is a decision, too: the floors alone count. A registry that cannot be asked is an error.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from drivetrain.base.errors import InputError
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.decision.deciding import Decision
    from drivetrain.decision.evaluation import Evaluation
    from drivetrain.decision.standing import Standing
    from drivetrain.registry.registry import ModelVersion

# evaluation.json's names of settings that evaluate's parameters call otherwise.
_PARAMETERS = {"metrics": "scoring"}
# Where the launcher leaves a failure's reason (drivetrain.steps.call says more).
_FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"
_MOST_CHARACTERS = 1000
_UNKNOWN = "unknown"
_CHAMPION, _BEST = "the champion", "the best approved version"
# What evaluate's `reader` says of a folder with a manifest that is read as prepare_data's.
_PREPARED = ("auto", "prepared", None)


class Compared(TypedDict):
    """The numbers that a pipeline can decide on: 1 is yes, 0 no. A version is 0 if there is none. The difference is
    candidate - champion of the metric that decides. It is there only if a champion was evaluated, and so is the night
    of its line or the number of comparisons on this test set.

    The hashes say what the candidate is and where it comes from: its report, its files, the data and settings that it
    was trained with, the modules that it brings along. Of what is not known it is the word `unknown`: registries take
    no empty text. `champion` is the version as a text, or the word `none`."""

    register: int
    floors_met: int
    within_budgets: int
    better: int
    already_registered: int
    has_champion: int
    champion_version: int
    value: float
    verdict: str
    why: str
    champion: str
    report_hash: str
    content_hash: str
    data_hash: str
    test_data_hash: str
    config_hash: str
    code_hash: str
    comparison: NotRequired[int]
    night: NotRequired[int]
    difference: NotRequired[float]
    low: NotRequired[float]
    high: NotRequired[float]


@component(needs=("torch", "pyarrow", "numpy", "safetensors", "boto3"), cached=False)
def compare(
    evaluation: Input,
    model: Input,
    data: Input,
    decision: Output,
    champion_evaluation: Input | None = None,
    *,
    group: str,
    registry: str = "auto",
    metric: str = "accuracy",
    rule: Literal["better", "not_worse"] = "better",
    margin: float = 0.0,
    confidence: float = 0.95,
    horizon: int = 365,
    floors: str = "{}",
    budgets: str = "{}",
    budget_rule: Literal["significant", "proven"] = "significant",
    margin_from: Literal["best", "champion"] = "best",
    seen_data: Literal["refuse", "report"] = "refuse",
    first: bool = False,
    nights: Literal["pooled", "bonferroni"] = "pooled",
    lines: int = 4,
    processes: int = 0,
) -> Compared:
    """Decide whether a candidate is registered.

    Args:
        evaluation: the output `report` of the candidate's evaluate step.
        model: the candidate, as evaluate was given it.
        data: the test set on which the candidate was evaluated.
        decision: gets decision.json and decision.md.
        champion_evaluation: the output `report` of an evaluation of the champion on this data: of a model of your own
            that keeps no answers to it, since the test set is a new one.
        group: the model's name in the registry.
        registry: KIND:LOCATION, or auto for the registry of the platform.
        metric: the metric that decides.
        rule: better (what is surely gained lies above 0), or not_worse (above -margin).
        margin: a difference of the metric: with better what must be gained, with not_worse what may be lost.
        confidence: of the interval; and of no wrong registration in `horizon` comparisons together.
        horizon: for how many comparisons the test set is used, one after the other. They are counted in the registry,
            and no candidate is registered after so many. 1 corrects for nothing and counts nothing.
        floors: what metrics must reach, a JSON object: '{"accuracy": 0.97, "accuracy@site=north": 0.9}'; where less is
            better, what they must not exceed.
        budgets: by how much metrics may be worse than the champion's: '{"f1_macro": 0.01, "accuracy@site=*": 0.02}'.
        budget_rule: significant (a budget is exceeded by a loss that is significant, all budgets tested together), or
            proven (a greater loss must be ruled out on each, at `confidence`; small slices cannot show it).
        margin_from: with not_worse, best (the candidate must not be worse than the best approved version, nor than the
            champion), or champion (than the champion alone: many promotions may each lose the margin).
        seen_data: what to do where the model knows the test set from its training: refuse to decide, or report it in
            the decision.
        first: the group may be new. Without it a group that the registry has not got is refused, for it may be
            mistyped; but for an empty registry of the platform.
        nights: with better, pooled (all candidates of one line are tested together: those of one pipeline against one
            champion), or bonferroni (each candidate by itself, as one of `horizon`).
        lines: with pooled, how many lines are begun a year at most. Each gets its share of 1 - `confidence`.
        processes: that evaluate the champion; 0 for as many as evaluated the candidate.

    Raises:
        InputError: a policy that cannot be decided on these numbers; an evaluation of another model or other data, of
            data that the model was trained on, or one that was changed; a registry that cannot be asked, or has not got
            the group; a champion whose files are gone or cannot be evaluated any more.
    """
    given = locals()
    from dataclasses import fields

    from drivetrain.decision.anchor import anchor_of
    from drivetrain.decision.deciding import Champion, Registered, check_policy, decide
    from drivetrain.decision.evaluation import read_evaluation
    from drivetrain.decision.page import About
    from drivetrain.decision.policy import Policy
    from drivetrain.decision.pooling import pipeline_of, standing_of
    from drivetrain.decision.record import write
    from drivetrain.decision.seen import check_unseen
    from drivetrain.registry.comparisons import check_first, count_comparison
    from drivetrain.registry.content_hash import hash_of_files
    from drivetrain.registry.intact import damage
    from drivetrain.registry.registration import Evidence, describe, lineage_of
    from drivetrain.registry.registry import checked_group, kind_of, named, open_registry, shown

    _check_one_host()
    checked_group(group)
    policy = Policy(**{each.name: given[each.name] for each in fields(Policy)})
    candidate = read_evaluation(evaluation)
    given_report = None if champion_evaluation is None else read_evaluation(champion_evaluation)
    check_policy(candidate, policy)  # before anything is fetched
    _check_data(candidate, data)
    check_unseen(candidate.seen, seen_data)
    path, files = _candidate_files(model, candidate)
    candidate_hash, description = hash_of_files(files), describe(path)
    opened = open_registry(registry)
    known = opened.find(group, candidate_hash)
    damaged = None if known is None else damage(known, opened.objects)
    registered = None if known is None else Registered(version=known.version, status=known.status)
    found = opened.champion(group)
    if found is None and known is None:
        check_first(opened, group, first=first, chosen=registry != "auto")
    champion: Champion | None = None
    comparison: int | None = None
    standing: Standing | None = None
    anchor: Champion | None = None
    if found is not None:
        if given_report is not None and given_report.model_hash != found.content_hash:
            raise InputError(
                f"{given_report.source} is the evaluation of another model than version {found.version}, the champion. "
                "Give an evaluation of that one, or leave champion_evaluation out."
            )
        evaluated: Evaluation | None = None
        if registered is None:  # else the verdict does not depend on the champion
            evaluated = _evaluated(found, candidate, data, processes, _CHAMPION, given_report)
            if policy.pools:
                pipeline = pipeline_of(description, files)
                entered = standing_of(opened, found, candidate, evaluated, policy, candidate_hash, pipeline)
                if isinstance(entered, str):
                    print(f"nights are not pooled: {entered}; each is one of {policy.horizon:,}", flush=True)
                else:
                    standing = entered
            if policy.horizon > 1 and candidate.data_hash and standing is None:
                test = policy.test_of(candidate_hash, found.content_hash)
                comparison = count_comparison(opened, group, candidate.data_hash, test)
        champion = Champion(version=found.version, content_hash=found.content_hash, evaluation=evaluated)

        def measure(version: ModelVersion) -> Evaluation:
            return _evaluated(version, candidate, data, processes, _BEST, None)

        anchor = anchor_of(opened, group, champion, policy, measure)
    is_local = kind_of(registry) == "local"
    place = named(registry) if is_local else shown(named(registry))
    print(f"champion of {group} in {place}: {'none' if found is None else f'version {found.version}'}", flush=True)
    # The record goes everywhere: no password, and no path of this machine.
    told = "local" if is_local else place
    decided = decide(
        candidate,
        champion,
        policy,
        registered=registered,
        comparison=comparison,
        asked=f"{group} in the registry {told}",
        anchor=anchor,
        standing=standing,
    )
    write(decided, decision, About(group=group, registry=told, candidate_hash=candidate_hash))
    print(f"{decided.verdict}: {' '.join(decided.why)}", flush=True)
    lineage = lineage_of(files, Evidence(description=description))
    numbers = _numbers(decided, candidate_hash, lineage)
    if damaged is not None and decided.verdict == "already registered":
        print(f"the files of that version are damaged ({damaged}): to register mends it", flush=True)
        numbers["register"] = 1
    return numbers


def _check_one_host() -> None:
    """Each host would evaluate the champion and write the same files."""
    hosts = os.environ.get("DRIVETRAIN_HOSTS", "one").split(",")
    if len(hosts) > 1:
        raise InputError(f"compare runs on one host, but this step has {len(hosts)} ({', '.join(hosts)}). Give it one.")


def _candidate_files(model: Path, candidate: Evaluation) -> tuple[Path, dict[str, str]]:
    """The candidate's folder or archive, and its files: name -> SHA-256."""
    from drivetrain.registry.content_hash import files_in, hash_of_files
    from drivetrain.registry.model_folder import ARCHIVE, DESCRIPTION

    archive = model / ARCHIVE  # beside which, in a shell, the training's other archive may lie
    path = archive if archive.is_file() and not (model / DESCRIPTION).is_file() else model
    files = files_in(path)
    if candidate.model_hash and candidate.model_hash != (found := hash_of_files(files)):
        raise InputError(
            f"{candidate.source} is the evaluation of another model: of the content {candidate.model_hash[:12]}, while "
            f"{model} holds {found[:12]}. Give the model that was evaluated."
        )
    return path, files


def _check_data(candidate: Evaluation, data: Path) -> None:
    """That the candidate was evaluated on this data, where the data says which it is: prepare_data's does.

    Of other formats only the readers know, so there the champion's evaluation shows it.
    """
    from drivetrain.data.manifest import MANIFEST_FILE, Manifest

    if (data / MANIFEST_FILE).is_file() and candidate.data_hash and candidate.settings.get("reader") in _PREPARED:
        try:
            there = Manifest.read(data, checksums=False).content_hash
        except InputError:  # another format's file of that name, as evaluate could read the data
            return
        if there != candidate.data_hash:
            raise InputError(
                f"{candidate.source} is the evaluation on other data: of the content {candidate.data_hash[:12]}, while "
                f"{data} holds {there[:12]}. Give the data on which the candidate was evaluated."
            )


def _numbers(decided: Decision, candidate_hash: str, lineage: Mapping[str, str]) -> Compared:
    from drivetrain.registry.binding import NO_CHAMPION

    candidate, champion = decided.candidate, decided.champion
    numbers: Compared = {
        "register": int(decided.verdict == "register"),
        "floors_met": int(decided.floors_met),
        "within_budgets": int(decided.within_budgets),
        "better": int(decided.better),
        "already_registered": 0 if decided.registered is None else decided.registered.version,
        "has_champion": int(champion is not None),
        "champion_version": 0 if champion is None else champion.version,
        "value": candidate.whole.metrics[decided.policy.metric].value,
        "verdict": decided.verdict,
        "why": _in_one_line(decided.why),
        "champion": NO_CHAMPION if champion is None else str(champion.version),
        "report_hash": candidate.report_hash or _UNKNOWN,
        "content_hash": candidate_hash,
        "data_hash": lineage.get("data", _UNKNOWN),
        "test_data_hash": candidate.data_hash or _UNKNOWN,
        "config_hash": lineage.get("config", _UNKNOWN),
        "code_hash": lineage.get("code", _UNKNOWN),
    }
    if decided.comparison is not None:
        numbers["comparison"] = decided.comparison
    if decided.standing is not None:
        numbers["night"] = len(decided.standing.nights)
    if decided.difference is not None:
        numbers["difference"] = decided.difference.value
        if decided.difference.interval is not None:
            numbers["low"] = decided.difference.interval.low
            numbers["high"] = decided.difference.interval.high
    return numbers


def _in_one_line(reasons: Sequence[str]) -> str:
    """As much as a pipeline can hand on; names of slices come from data, and may hold anything."""
    text = " ".join(reasons)[:_MOST_CHARACTERS]
    return "".join(character if character.isprintable() else " " for character in text)


def _evaluated(
    model: ModelVersion,
    candidate: Evaluation,
    data: Path,
    processes: int,
    role: str,
    measured: Evaluation | None,
) -> Evaluation:
    """A registered version's numbers, measured as the candidate's were, unless they are given as `measured`."""
    from dataclasses import replace

    from drivetrain.components.evaluate import evaluate
    from drivetrain.decision.evaluation import read_evaluation
    from drivetrain.registry.kept_answers import asked_or_kept

    if measured is not None:
        return measured
    named = f"{role}, version {model.version} of {model.group}"
    settings = _settings(candidate, processes)
    print(f"evaluating {named}", flush=True)
    with tempfile.TemporaryDirectory(prefix="drivetrain-champion-") as folder:
        report, reason = Path(folder) / "report", Path(folder) / "reason"
        try:
            asked, kept = asked_or_kept(model, candidate.data_hash, Path(folder), prefer_kept=bool(candidate.loss))
            if kept is not None or (asked is not None and _is_of_functions(asked)):  # whole on each process
                settings |= {"strategy": "ddp", "strategy_options": "{}"}
            if kept is not None:
                settings |= {"answers": kept.folder, "task": kept.task}
            with _reason_to(reason):
                evaluate(asked, data, report, **settings)
        except InputError as error:
            raise InputError(_cannot(role, named, str(error))) from None
        except SystemExit:
            said = reason.read_text(encoding="utf-8").strip() if reason.exists() else "its log says why"
            raise InputError(_cannot(role, named, said)) from None
        # Messages are to name it by what stays.
        return replace(read_evaluation(report), source=f"version {model.version} of {model.group}")


def _is_of_functions(model: Path) -> bool:
    from drivetrain.registry.registration import describe

    return (describe(model) or {}).get("framework") == "functions"


def _cannot(role: str, named: str, reason: str) -> str:
    reason = reason.removesuffix(" Restore it.").rstrip(".")  # the advice follows
    return (
        f"{named}, cannot be compared with: {reason}. Restore it, or reject that version: then an approved one before "
        f"it is {role}."
    )


def _settings(candidate: Evaluation, processes: int) -> dict[str, Any]:
    """The parameters of evaluate with which the candidate was."""
    from drivetrain.components.evaluate import evaluate

    given: dict[str, Any] = dict(candidate.settings)
    drawn = candidate.resampling
    given |= {"bootstrap": 0 if drawn is None else drawn.replicates, "predictions": False}
    if drawn is not None:
        given |= {"seed": drawn.seed, "confidence": drawn.confidence}
    if processes:
        given["processes"] = processes
    named = {_PARAMETERS.get(name, name): _as_text(value) for name, value in given.items()}
    return {name: value for name, value in named.items() if name in evaluate.parameters}


def _as_text(value: Any) -> Any:
    """A parameter's value: lists and objects of evaluation.json as the text that evaluate takes."""
    if isinstance(value, list):
        return ",".join(map(str, cast("list[Any]", value)))
    return json.dumps(value) if isinstance(value, Mapping) else value


@contextmanager
def _reason_to(file: Path) -> Generator[None]:
    """A failure's reason goes to `file`: the platform reports the file of this step, which is not for the champion's
    failure."""
    before = os.environ.get(_FAILURE_FILE)
    os.environ[_FAILURE_FILE] = str(file)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FAILURE_FILE]
        else:
            os.environ[_FAILURE_FILE] = before


if __name__ == "__main__":
    compare.main()
