"""One run of a pipeline on this machine: started, and as its ledger has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, did_you_mean, shown
from drivetrain.client import running
from drivetrain.client.arguments import PLACE, checked, checked_home, checked_lines
from drivetrain.client.comparison import Comparison
from drivetrain.client.frames import Named, frame
from drivetrain.client.models import Registry
from drivetrain.run_store.home import Home
from drivetrain.run_store.labels import change_name, change_note, change_tags
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.telling.content.from_ledger import run_facts, save_page
from drivetrain.telling.content.given import Compared, given_settings
from drivetrain.telling.page import render

if TYPE_CHECKING:
    from drivetrain.client.models import Model
    from drivetrain.run_store import model
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.telling.content import RunFacts

# Of an execution that goes on, or can be resumed: its facts are read anew each time.
_OPEN = ("Executing", "Interrupted")


@dataclass(frozen=True, kw_only=True)
class Step(StepRun):
    """One step of a run.

    `status` is Succeeded, Cached, Failed, Stopped, NotExecuted, Executing, Waiting or Interrupted; `seconds` is wall
    time, retries included, None where it never ran. `settings` are the program's parameters and machine, `metrics` the
    numbers that it returned, `why` what made it run instead of hitting the cache, `cache_of` the run whose result it
    took, `reason` what went wrong, `unhealthy` the health rule that its model failed, with advice.
    """

    metrics: Mapping[str, float]
    outputs: Mapping[str, Path]
    """Output -> its folder or file on this machine."""
    inputs: Mapping[str, Path]
    _logs: Path

    def log(self, lines: int | None = None) -> str:
        """Read what the step's program wrote in its last attempt; several hosts one after the other.

        Args:
            lines: only the last ones of each host.

        Raises:
            UserError: `lines` is no number of lines.
        """
        lines = checked_lines(lines)
        texts: list[str] = []
        for file in sorted(self._logs.glob("*.log")):
            text = file.read_text(encoding="utf-8", errors="replace")
            texts.append(text if lines is None else "\n".join(text.splitlines()[-lines:] if lines else ()))
        return "\n".join(texts)


class Run:
    """A run, by its id, its name, the beginning of its id, or `latest`.

    What it says of a run that goes on is as of now, each time it is asked. Two of them are equal where home and id are.

    Args:
        home: the folder of runs; $DRIVETRAIN_HOME, else `.drivetrain` in the working folder, unless given.

    Raises:
        UserError: there is no such run.
    """

    def __init__(self, id: str = "latest", *, home: str | Path | None = None) -> None:
        if not isinstance(id, str):  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Run({shown(id)}): give the id of a run, its name, the beginning of its id, or 'latest'.")
        checked_home("Run", home)
        self._home = Home(home)
        self._kept: RunFacts | None = None
        self.id = id
        self.id = self._facts.id

    @property
    def _facts(self) -> RunFacts:
        if self._kept is not None:
            return self._kept

        with Ledger(self._home) as ledger:
            facts = run_facts(ledger, self.id)
        if facts.status not in _OPEN:
            self._kept = facts
        return facts

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self._facts.pipeline

    @property
    def status(self) -> str:
        """Executing, Succeeded, CompletedWithFailures, Failed, Stopped or Interrupted."""
        return self._facts.status

    @property
    def succeeded(self) -> bool:
        """True if it has ended, and all of its steps that had to run succeeded."""
        return self.status == "Succeeded"

    @property
    def reason(self) -> str | None:
        """Why it failed."""
        return self._facts.reason

    @property
    def started(self) -> datetime:
        """When it was started (UTC)."""
        return datetime.fromtimestamp(self._facts.started, UTC)

    @property
    def seconds(self) -> float:
        """Wall time until its end, or until now; without the time in which nobody ran it."""
        return self._facts.seconds

    @property
    def parameters(self) -> dict[str, Any]:
        """The pipeline's parameters; values that look like secrets read `***`."""
        return dict(self._facts.parameters)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its pipeline with their values, defaults included; empty where the run was made of a
        Pipeline object, or its folder was removed."""
        return given_settings(self._home, self.id)

    @property
    def name(self) -> str | None:
        """The name that it was given; see `label`."""
        return self._row.name

    @property
    def note(self) -> str | None:
        """The note that was written about it; see `label`."""
        return self._row.note

    @property
    def tags(self) -> dict[str, str]:
        """The tags that it was given; see `label`."""
        return dict(self._row.tags)

    @property
    def _row(self) -> model.Run:
        with Ledger(self._home) as ledger:
            return ledger.run(self.id)

    def label(self, *, name: str | None = None, note: str | None = None, **tags: str | None) -> None:
        """Name it, write a note about it, tag it: `run.label(name="best", note="a longer warm-up", team="vision")`.

        A name stands for the id. What is left out stays; an empty name or note, and a tag of None, are taken away.

        Raises:
            UserError: a name or tag that cannot be given, or that another run has.
        """
        if tags:
            given = {key: text for key, text in tags.items() if text is not None}
            change_tags(self._home, self.id, given, tuple(key for key in tags if key not in given))
        if name is not None:
            change_name(self._home, self.id, None if name == "" else name)
        if note is not None:
            change_note(self._home, self.id, note)

    @property
    def steps(self) -> Mapping[str, Step]:
        """The steps by name, in the pipeline's order; those of a loop's iterations are `NAME-0`, `NAME-1`, ..."""
        facts = self._facts
        measured = {one.step: one.numbers for one in facts.measured}
        return Named("step", {step.name: self._step(facts, step, measured) for step in facts.steps})

    def _step(self, facts: RunFacts, step: StepRun, measured: Mapping[str, Mapping[str, float]]) -> Step:
        store = ObjectStore(self._home.objects)
        places: dict[str, dict[str, Path]] = {"input": {}, "output": {}}
        for artifact in facts.artifacts:
            if artifact.step == step.name and artifact.uri.startswith("s3://"):
                places[artifact.flow][artifact.name] = store.path(artifact.uri)
        logs, attempts = step.cache_of or facts.id, max(step.attempts, 1)
        if step.cache_of is not None:
            folders = sorted((self._home.run(logs) / step.name).glob("attempt-*"))
            attempts = max((int(folder.name.rpartition("-")[2]) for folder in folders), default=1)
        return Step(
            **vars(step),
            metrics=Named("metric", measured.get(step.name, {})),
            outputs=Named("output", places["output"]),
            inputs=Named("input", places["input"]),
            _logs=self._home.logs(logs, step.name, attempts),
        )

    @property
    def metrics(self) -> Mapping[str, float]:
        """The numbers that the steps returned, by name; `STEP.NAME` where several steps returned one of that name."""
        return Named("metric", Compared(facts=self._facts).metrics)

    def curves(self, step: str | None = None) -> dict[str, list[tuple[float, float]]]:
        """Training metric -> [(seconds since the training began, value), ...]; `STEP.METRIC` where several steps train.

        Args:
            step: of this training alone.

        Raises:
            UserError: the run has no such step.
        """
        if step is not None:
            checked("curves", str, step=step)
            if step not in (names := [each.name for each in self._facts.steps]):
                raise UserError(f"curves({step!r}): run {self.id} has no such step. {did_you_mean(step, names)}")
        found = [curve for curve in self._facts.curves if step in (None, curve.step)]
        several = len({curve.step for curve in found}) > 1
        return {f"{c.step}.{c.name}" if several else c.name: list(c.points) for c in found}

    def to_frame(self) -> Any:
        """The curves as a data frame with the columns step, metric, seconds and value.

        Raises:
            UserError: neither pandas nor Polars is installed.
        """
        return frame(
            [
                {"step": curve.step, "metric": curve.name, "seconds": seconds, "value": value}
                for curve in self._facts.curves
                for seconds, value in curve.points
            ],
            ("step", "metric", "seconds", "value"),
        )

    @property
    def model_version(self) -> Model | None:
        """The version of a model that the run registered, as it is now; the last one where there are several."""
        if not self._facts.models:
            return None

        model = self._facts.models[-1]
        return Registry(home=self._home.root).model(model.group, model.version)

    def report(self) -> Path:
        """Write the page of the run anew; gives the file.

        Raises:
            UserError: the run is not there any more.
        """
        _ = self._row  # else a page would be all that is left of a run that was deleted
        return save_page(self._home, self._facts)

    def resume(self, **settings: Any) -> Run:
        """Go on with the run where it was stopped, killed, or failed: what is done is not done again.

        Args:
            settings: settings of the pipeline that are to be different from now on.

        Raises:
            UserError: it has succeeded, goes on already, or cannot go on with these settings.
            KeyboardInterrupt: it was stopped by Ctrl-C or a signal.
        """
        self._kept = None
        running.resume(self._home, self.id, settings)
        return self

    def stop(self) -> None:
        """Ask the process that runs it to end it, as Ctrl-C there does: a training saves a checkpoint first. Comes back
        at once; asked again, its steps are ended at once. `resume` goes on with it.

        Raises:
            UserError: it has ended, or its process cannot be asked from here.
        """
        from drivetrain.run_store.stopping import stop

        stop(self._home, self.id)

    def compare(self, *others: Run | str) -> Comparison:
        """Compare this run with others: settings, metrics, data and code.

        Raises:
            UserError: there is no such run; no other is given.
        """
        if not others:
            raise UserError("compare() is given no other run. Give a Run, or the id of one.")
        from drivetrain.telling.content.comparison import compare

        for other in others:
            if not isinstance(other, Run | str):  # type: ignore[reportUnnecessaryIsInstance]
                raise UserError(f"compare({shown(other)}): give a Run, or the id of one.")
        ids = [other.id if isinstance(other, Run) else other for other in others]
        return Comparison(compare(self._home, [self.id, *ids]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return self.id == other.id and self._home.root.resolve() == other._home.root.resolve()

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Run({self.id!r}: {self.pipeline}, {self._facts.shown_status}, {self.seconds:.1f} s)"

    def _repr_html_(self) -> str:
        """The page of the run, for notebooks."""
        from html import escape

        page = escape(render(self._facts), quote=True)
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:640px;border:0"></iframe>'


def run(
    pipeline: str | Path | Pipeline | Callable[..., Any],
    /,
    *,
    parameters: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    home: str | Path | None = None,
    cache: bool = True,
    fresh: bool = False,
    quiet: bool = False,
    tags: Mapping[str, str] | None = None,
    **settings: Any,
) -> Run:
    """Run a pipeline on this machine; comes back when it has ended, however it ended.

        run = dt.run("retraining", epochs=5)
        run.status, run.metrics["accuracy"]

    A run of the same pipeline with the same settings that was interrupted goes on where it was.

    Args:
        pipeline: the name of a ready pipeline, a file (`digits.py`, `digits.py:nightly`), a function that returns a
            Pipeline, or a Pipeline.
        parameters: values of the pipeline's parameters; their defaults unless given.
        config: a YAML file with settings.
        home: the folder of runs; $DRIVETRAIN_HOME, else `.drivetrain` in the working folder, unless given.
        cache: whether unchanged steps are taken from the cache; else every step runs.
        fresh: use nothing of earlier runs: no cached result, no checkpoint, and do not go on with a run that was
            interrupted. Uploads are hashed. The registry stays as it is.
        quiet: print no progress.
        tags: marks to find the run by: {"team": "vision"}.
        settings: settings of the pipeline, such as `epochs=20`. None are taken by a Pipeline, which is built already.

    Raises:
        UserError: what is wrong with any of it, before anything starts.
        KeyboardInterrupt: the run was stopped by Ctrl-C or a signal; the same call goes on with it.
    """
    checked_home("run", home)
    checked("run", PLACE, config=config)
    checked("run", Mapping | None, parameters=parameters, tags=tags)
    checked("run", bool, cache=cache, fresh=fresh, quiet=quiet)
    place = Home(home)
    given = None if config is None else Path(config)
    more = {"cache": cache, "fresh": fresh, "quiet": quiet}
    id = running.start(pipeline, place, dict(parameters or {}), given, settings, tags=tags or {}, **more)
    return Run(id, home=place.root)
