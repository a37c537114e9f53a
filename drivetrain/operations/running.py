"""A watched run on this machine: prepared, begun or resumed, and recorded at its end."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.run_store.events import Event, ExecutionFinished, Observer

if TYPE_CHECKING:
    from drivetrain.operations.operands import Work
    from drivetrain.run_store.home import Home
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption
    from drivetrain.targets.sagemaker.run.options import Options
    from drivetrain.targets.sagemaker.run.runner import Asset, Runner
    from drivetrain.telling.content import RunFacts
    from drivetrain.telling.progress import Clock, Progress

# An import in a function, or an absolute path.
_OF_THIS_MACHINE = re.compile(rb"""(?:^[ \t]+|[:;][ \t]*)(?:import|from)\s|["']/""", re.MULTILINE)


def new_progress(*, as_json: bool, quiet: bool = False, clock: Clock | None = None) -> Progress:
    """The progress that fits where stdout leads.

    Args:
        clock: gives the seconds since the epoch, where they are not the present.
    """
    from drivetrain.telling import progress

    if quiet and not as_json:
        return progress.Progress()
    if as_json:
        return progress.EventLines(clock=clock or time.time)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from drivetrain.telling.progress.live import LiveProgress

        return LiveProgress(clock=clock or time.monotonic)
    return progress.PlainProgress(clock=clock or time.monotonic)


class Watcher:
    """Passes events on, and lets no trouble of the display end a run: a training is worth more than its picture.

    When the reader of the output goes away, the run goes on unseen. Any other exception is kept and raised at the end.
    A face that says more of a run than its progress says it in a class of its own.
    """

    hears_signals: ClassVar[bool] = False
    """`stopping` is called when a signal asks the run to stop."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.reader_is_there = True
        self.trouble: Exception | None = None

    def __enter__(self) -> Self:
        self.progress.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.guarded(lambda: self.progress.__exit__(*exception))

    def __call__(self, event: Event) -> None:
        self.guarded(lambda: self.progress(event))

    def going_on(self, execution: str) -> None:
        """The same run was interrupted: it goes on."""

    def stopping(self) -> None:
        """The user asked the run to stop."""

    def ended(self, facts: RunFacts, page: Path) -> None:
        """The run has ended, and its page is written."""

    def raise_what_went_wrong(self) -> None:
        """Raise what was kept."""
        if not self.reader_is_there:
            raise BrokenPipeError
        if self.trouble is not None:
            raise self.trouble

    def guarded(self, show: Callable[[], object]) -> None:
        """Call `show`, unless the display is in trouble; keep what it raises."""
        if not self.reader_is_there or self.trouble is not None:
            return
        try:
            show()
        except BrokenPipeError:
            self.reader_is_there = False
        except Exception as error:
            self.trouble = error


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A definition, and how it is to run."""

    text: str | bytes
    options: Options
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    assets: tuple[Asset, ...] = ()
    source: str = "definition"
    """The name of the text in messages."""
    fresh: bool = False
    """Use nothing of earlier runs, and do not go on with one that was interrupted."""


def request_for(
    work: Work,
    home: Home,
    *,
    parameters: Mapping[str, Any],
    fresh: bool = False,
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> RunRequest:
    """How something compiled is to run: by its settings, and by `options` (fields of Options), which win.

    Args:
        tell: is told the notes of the compilation, and which comparisons of budgets can decide nothing.

    Raises:
        UserError: a step needs what this machine lacks, or a setting names what is not there.
    """
    from drivetrain.targets.sagemaker.run.options import Options

    pipeline, local = work.pipeline, work.local
    given: dict[str, Mapping[str, Any]] = {"functions": local.lambdas, "callbacks": local.callbacks}
    if local.stubs or local.image_commands or local.data:
        from drivetrain.operations import stand_ins

        given["stubs"] = stand_ins.stubs(local.stubs, "local.stubs")
        given["image_commands"] = stand_ins.image_commands(local.image_commands, "local.image_commands")
        given["data"] = stand_ins.data(local.data, "local.data")
    options |= {name: {**values, **options.get(name, {})} for name, values in given.items()}
    if local.trackers:
        from drivetrain.trackers.tracker import checked

        options["trackers"] = checked(local.trackers)
    if pipeline is not None and _asks_of_this_machine(pipeline, work.folder):
        from drivetrain.operations.needs import read_each_time, refuse_lacking

        left_out, only = options.get("stubs", ()), options.get("selected", ())
        refuse_lacking(pipeline, work.folder, work.assets, left_out=left_out, only=only)
        options["uncached"] = read_each_time(pipeline, work.folder, by_option=work.one_step)
    if tell is not None:
        for note in work.notes:
            tell(f"for a deployment, {note}")
        if pipeline is not None and _compares_by_budgets(pipeline):
            from drivetrain.operations.planned_decisions import notes

            for note in notes(pipeline, work.folder, f"local:{home.ledger}"):
                tell(note)
        if pipeline is not None and _compares(pipeline):
            from drivetrain.operations import champions

            for note in champions.notes(pipeline, f"local:{home.ledger}"):
                tell(note)
    how = Options(
        pipeline=work.name,
        max_parallel=options.pop("max_parallel", None) or work.max_parallel,
        triggered=pipeline is not None and bool(pipeline.triggers),
        origin=work.origin,
        settings=work.settings,
        region=work.region,
        **options,
    )
    return RunRequest(
        text=work.text, options=how, parameters=parameters, assets=work.assets, source=work.source, fresh=fresh
    )


def _asks_of_this_machine(pipeline: Pipeline, folder: Path) -> bool:
    """True where a step says what it needs, or has a recipe, which imports what it likes, or a component whose file has
    an import in a function or an absolute path: else nothing is looked for."""
    from drivetrain.spec.steps import JobStep, flatten

    jobs = [step for step in flatten(pipeline.steps) if isinstance(step, JobStep)]
    if any(job.program.needs or "recipe" in job.parameters for job in jobs):
        return True
    modules = {job.program.target.partition(":")[0] for job in jobs if job.program.kind == "component"}
    files = (folder / f"{module.replace('.', '/')}.py" for module in modules)
    return any(_OF_THIS_MACHINE.search(file.read_bytes()) for file in files if file.is_file())


def _compares(pipeline: Pipeline) -> bool:
    from drivetrain.spec.resources import COMPARE
    from drivetrain.spec.steps import JobStep, flatten

    return any(isinstance(step, JobStep) and step.program.target == COMPARE for step in flatten(pipeline.steps))


def _compares_by_budgets(pipeline: Pipeline) -> bool:
    from drivetrain.spec.steps import JobStep, flatten

    jobs = (step for step in flatten(pipeline.steps) if isinstance(step, JobStep))
    return any(job.parameters.get("budgets", "{}") != "{}" for job in jobs)


def run(home: Home, request: RunRequest, watcher: Watcher) -> RunFacts:
    """Run a definition, or go on with the run of the same definition and parameters that was killed.

    Raises:
        UserError: what is wrong with any of it, before anything starts.
    """
    text, parameters, options, source = request.text, request.parameters, request.options, request.source

    def begin(runner: Runner) -> ExecutionFinished:
        interrupted = None if request.fresh else runner.find_interrupted(text, parameters, options, source=source)
        if interrupted is None:
            return runner.start(text, parameters, options, assets=request.assets, source=source, fresh=request.fresh)
        watcher.going_on(interrupted)
        return runner.resume(interrupted, options, assets=request.assets)

    return _run_by(home, begin, watcher, tracked=bool(options.trackers))


def resume(
    home: Home,
    execution: str,
    watcher: Watcher,
    *,
    settings: Sequence[str] | Mapping[str, Any] = (),
    interruptions: tuple[Interruption, ...] | None = None,
) -> RunFacts:
    """Go on with a run.

    Args:
        settings: that are to be different from now on, as `KEY=VALUE` or by their names: the pipeline is compiled anew.
        interruptions: in the place of those with which it was started; None to keep them.

    Raises:
        UserError: there is no such run, it cannot go on, or it was not made of a pipeline with settings.
    """
    if not settings and interruptions is None:
        return _run_by(home, lambda runner: runner.resume(execution), watcher)
    from drivetrain.run_store.home import why_not_resumed
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.run.options import Request

    with Ledger(home) as ledger:
        id = ledger.execution(execution).id
    if reason := why_not_resumed(home.run(id)):
        raise UserError(f"Execution {id} cannot be resumed: {reason}")
    # Who changes how it runs says anew what it shall survive: a training on demand is not taken away.
    options = replace(Request.load(home.run(id)).options, interruptions=interruptions or ())
    text: str | None = None
    assets: tuple[Asset, ...] = ()
    if settings:
        from drivetrain.operations.operands import as_overrides, compiled_again

        if options.origin is None:
            raise UserError(
                f"Run {id} was not started from a named pipeline with settings, so there is nothing to compile again. "
                "Start it with the changed settings: a training goes on from its checkpoints where they are kept in "
                "the same place."
            )
        overrides = as_overrides(settings) if isinstance(settings, Mapping) else settings
        built, values = compiled_again(options.origin, settings)
        origin = {**options.origin, "set": [*options.origin["set"], *overrides]}
        options = replace(options, origin=origin, settings=values)
        text, assets = built.text, built.assets
    return _run_by(home, lambda runner: runner.resume(id, options, text=text, assets=assets), watcher)


def _run_by(
    home: Home, begin: Callable[[Runner], ExecutionFinished], watcher: Watcher, *, tracked: bool = True
) -> RunFacts:
    from drivetrain.targets.sagemaker.run.runner import Runner

    return watch(home, lambda observer: begin(Runner(home, observer)), watcher, tracked=tracked)


def watch(home: Home, begin: Callable[[Observer], ExecutionFinished], watcher: Watcher, *, tracked: bool) -> RunFacts:
    """Let a target's runner begin a run, and show it until it has ended.

    Args:
        tracked: the run may have trackers.
    """
    from drivetrain.operations.concluding import conclude

    told: AbstractContextManager[Observer] = nullcontext(watcher)
    if tracked:
        from drivetrain.trackers import told_to_trackers

        told = told_to_trackers(home, watcher)
    with told as observer:
        with watcher, told_of_signals(watcher) if watcher.hears_signals else nullcontext():
            summary = begin(observer)
        watcher.raise_what_went_wrong()
        facts, page = conclude(home, summary.execution)
        watcher.ended(facts, page)
    return facts


@contextmanager
def told_of_signals(watcher: Watcher) -> Generator[None]:
    """Tell the watcher, in a thread of its own, when a signal asks the run to stop.

    The runner handles the signals. Python also writes their numbers to a file that can be read beside it
    (signal.set_wakeup_fd); that is how the display learns of them at once, and not when the last step has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def listen() -> None:
        while number := os.read(reading, 1):
            if number[0] in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                watcher.guarded(watcher.stopping)

    listener = threading.Thread(target=listen, name="signals", daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        listener.join()
        os.close(reading)
