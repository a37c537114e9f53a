"""A run that somebody watches: progress while it goes on, what came out at its end, and the exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import Event, ExecutionStarted, Observer, Summary

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption
    from drivetrain.targets.sagemaker.run.options import Options
    from drivetrain.targets.sagemaker.run.runner import Asset, Runner
    from drivetrain.telling.content import RunFacts
    from drivetrain.telling.progress import Clock, RunView

FAILED = 1


class Progress(Protocol):
    """What shows the events: PlainProgress, EventLines, NoProgress or LiveProgress."""

    view: RunView

    def __call__(self, event: Event) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def start(
    home: Home,
    text: str | bytes,
    parameters: Mapping[str, Any],
    options: Options,
    assets: Iterable[Asset] = (),
    *,
    source: str = "definition",
    fresh: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    home_option: str = "",
    wrap: Callable[[Observer], Observer] = lambda observer: observer,
) -> int:
    """Run a definition, or go on with the run of the same definition and parameters that was killed; gives the exit
    code.

    Args:
        wrap: an observer in the place of ours, which tells ours.

    Raises:
        UserError: what is wrong with any of it, before anything starts.
    """

    def run(runner: Runner) -> Summary:
        runner.observer = wrap(runner.observer)
        interrupted = None if fresh else runner.find_interrupted(text, parameters, options, source=source)
        if interrupted is None:
            return runner.start(text, parameters, options, assets=assets, source=source, fresh=fresh)
        if not quiet:
            said = f"The same run was interrupted: going on with {interrupted} (--fresh starts a new one)."
            say_to_user(said, as_json=as_json)
        return runner.resume(interrupted, options, assets=assets)

    tracked = bool(options.trackers)
    return _watch(home, run, as_json=as_json, quiet=quiet, home_option=home_option, tracked=tracked)


def resume(
    home: Home,
    execution: str,
    *,
    overrides: Sequence[str] = (),
    interruptions: tuple[Interruption, ...] | None = None,
    as_json: bool = False,
    quiet: bool = False,
    home_option: str = "",
) -> int:
    """Go on with an execution; gives the exit code.

    Args:
        overrides: settings that are to be different from now on: the pipeline is compiled anew with them.
        interruptions: in the place of those with which it was started; None to keep them.

    Raises:
        UserError: there is no such execution, it cannot go on, or it was not made of a pipeline with settings.
    """
    if not overrides and interruptions is None:
        return _watch(
            home, lambda runner: runner.resume(execution), as_json=as_json, quiet=quiet, home_option=home_option
        )
    id, options = _saved_options(home, execution)
    # Who changes how it runs says anew what it shall survive: a training on demand is not taken away.
    options = replace(options, interruptions=interruptions or ())
    text: str | None = None
    assets: tuple[Asset, ...] = ()
    if overrides:
        from drivetrain.operations.operands import compiled_again

        if options.origin is None:
            raise UserError(
                f"--set: execution {id} was not started from a pipeline with settings (drivetrain run PIPELINE), so "
                "there is nothing to compile again. Start it with the changed values: a training goes on "
                "from its checkpoints where they are kept in the same place."
            )
        built, settings = compiled_again(options.origin, overrides)
        origin = {**options.origin, "set": [*options.origin["set"], *overrides]}
        options = replace(options, origin=origin, settings=settings)
        text, assets = built.text, built.assets

    def run(runner: Runner) -> Summary:
        return runner.resume(id, options, text=text, assets=assets)

    return _watch(home, run, as_json=as_json, quiet=quiet, home_option=home_option)


def _saved_options(home: Home, execution: str) -> tuple[str, Options]:
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.run.options import Request, why_not_resumed

    with Ledger(home) as ledger:
        id = ledger.execution(execution).id
    if reason := why_not_resumed(home.run(id)):
        raise UserError(f"Execution {id} cannot be resumed: {reason}")
    return id, Request.load(home.run(id)).options


def say_to_user(text: str, *, as_json: bool) -> None:
    """On stdout; beside JSON lines on stderr, so that these stay JSON."""
    print(text, file=sys.stderr if as_json else sys.stdout, flush=True)


def _watch(
    home: Home,
    run: Callable[[Runner], Summary],
    *,
    as_json: bool,
    quiet: bool,
    home_option: str,
    tracked: bool = True,
) -> int:
    from drivetrain.targets.sagemaker.run.runner import Runner

    return watched(
        home,
        lambda observer: run(Runner(home, observer)),
        as_json=as_json,
        quiet=quiet,
        home_option=home_option,
        tracked=tracked,
    )


def watched(
    home: Home,
    run: Callable[[Observer], Summary],
    *,
    as_json: bool,
    quiet: bool = False,
    home_option: str,
    tracked: bool = True,
) -> int:
    """Show what `run` tells its observer, then what came of it; gives the exit code.

    Args:
        tracked: whether the run may have trackers.
    """
    watcher = Watcher(new_progress(as_json=as_json, quiet=quiet))
    with _told_to_trackers(home, watcher) if tracked else nullcontext(watcher) as observer:
        with watcher, told_of_signals(lambda: watcher.stopping(as_json or quiet)):
            summary = run(observer)
        watcher.raise_what_went_wrong()
        return _conclude(home, summary, watcher, as_json=as_json, quiet=quiet, home_option=home_option)


def _told_to_trackers(home: Home, watcher: Watcher) -> AbstractContextManager[Observer]:
    from drivetrain.trackers import told_to_trackers

    return told_to_trackers(home, watcher)


def new_progress(*, as_json: bool, quiet: bool = False, clock: Clock | None = None) -> Progress:
    """The progress that fits where stdout leads.

    Args:
        clock: gives the seconds since the epoch, where they are not the present.
    """
    from drivetrain.telling import progress

    if quiet and not as_json:
        return progress.NoProgress()
    if as_json:
        return progress.EventLines(clock=clock or time.time)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from drivetrain.telling.progress.live import LiveProgress

        return LiveProgress(clock=clock or time.monotonic)
    return progress.PlainProgress(clock=clock or time.monotonic)


class Watcher:
    """Passes events on, and lets no trouble of the display end a run: a training is worth more than its picture.

    When the reader of the output goes away, the run goes on unseen. Any other exception is kept and raised at the end.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.reader_is_there = True
        self.trouble: Exception | None = None

    def __enter__(self) -> Self:
        self.progress.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._guarded(lambda: self.progress.__exit__(*exception))

    def __call__(self, event: Event) -> None:
        self._guarded(lambda: self.progress(event))

    def stopping(self, as_json: bool) -> None:
        """The user asked the run to stop."""
        self._guarded(
            lambda: (
                say_to_user("Stopping: the steps are asked to end (again: at once).", as_json=as_json)
                if self.progress.view.execution
                else None
            )
        )

    def raise_what_went_wrong(self) -> None:
        """Raise what was kept."""
        if not self.reader_is_there:
            raise BrokenPipeError
        if self.trouble is not None:
            raise self.trouble

    def _guarded(self, show: Callable[[], object]) -> None:
        if not self.reader_is_there or self.trouble is not None:
            return
        try:
            show()
        except BrokenPipeError:
            self.reader_is_there = False
        except Exception as error:
            self.trouble = error


@contextmanager
def told_of_signals(tell: Callable[[], None]) -> Generator[None]:
    """Call `tell`, in a thread of its own, when a signal asks the run to stop.

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
                tell()

    listener = threading.Thread(target=listen, name="signals", daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        listener.join()
        os.close(reading)


def _conclude(home: Home, summary: Summary, watcher: Watcher, *, as_json: bool, quiet: bool, home_option: str) -> int:
    """Write the page, say what came out, and give the exit code."""
    from drivetrain.operations.concluding import conclude

    facts, report = conclude(home, summary.execution)
    _say_end(home, facts, report, watcher.progress, home_option, as_json=as_json, quiet=quiet)
    return exit_code(facts)


class _EventTime(threading.local):
    """A clock that gives the time of an event to the thread that tells of it, and the present to one that draws."""

    at: float | None = None

    def __call__(self) -> float:
        return time.time() if self.at is None else self.at


def follow(home: Home, execution: str, *, as_json: bool, home_option: str) -> int:
    """Show a run of another process until it ends, then what came of it; gives the exit code.

    Raises:
        UserError: there is no such run, or it was removed.
    """
    from drivetrain.run_store import following
    from drivetrain.run_store.reader import Ledger
    from drivetrain.telling.content.from_ledger import REPORT_FILE, run_facts

    clock = _EventTime()
    with Ledger(home) as ledger:
        with new_progress(as_json=as_json, clock=clock) as progress:

            def tell(event: Event, at: float) -> None:
                clock.at = at
                if isinstance(event, ExecutionStarted):
                    progress.view.began = at
                progress(event)
                clock.at = None

            id = following.follow(ledger, execution, tell)
        home.refuse_removed(home.ledger)
        facts = run_facts(ledger, id)
    page = home.run(id) / REPORT_FILE
    _say_end(home, facts, page if page.exists() else None, progress, home_option, as_json=as_json)
    return exit_code(facts)


def _say_end(
    home: Home,
    facts: RunFacts,
    report: Path | None,
    progress: Progress,
    home_option: str,
    *,
    as_json: bool,
    quiet: bool = False,
) -> None:
    if as_json:
        import json

        from drivetrain.cli.outcome import as_json as facts_as_json

        page = None if report is None else str(report)
        print(json.dumps({"event": "summary", "report": page, **facts_as_json(facts)}, default=str), flush=True)
    else:
        _say_outcome(home, facts, report, progress, home_option, quiet=quiet)


def exit_code(facts: RunFacts) -> int:
    """0 when the run did what it should, 1 when it failed, 2 when it failed by bad input, 130 when it was stopped."""
    if facts.status in ("Succeeded", "CompletedWithFailures"):
        return 0
    from drivetrain.cli.errors import BAD_INPUT, INTERRUPTED
    from drivetrain.run_store.reasons import is_bad_input

    if facts.status == "Stopped":
        return INTERRUPTED
    failed = [step for step in facts.steps if step.status == "Failed"]
    return BAD_INPUT if failed and all(is_bad_input(step.reason) for step in failed) else FAILED


def _say_outcome(
    home: Home, facts: RunFacts, report: Path | None, progress: Progress, home_option: str, *, quiet: bool
) -> None:
    from drivetrain.cli.outcome import summary
    from drivetrain.telling.progress import MANY_STEPS, PlainProgress
    from drivetrain.telling.terminal import say

    if quiet:
        say(facts.id)
        if facts.failures() or facts.status == "Stopped":
            from drivetrain.cli.outcome import headline
            from drivetrain.cli.runs.failure import failure_block

            told = [headline(facts), *(failure_block(home, facts.id, step) for step in facts.failures())]
            print("\n\n".join(told), file=sys.stderr)
        return
    # On a terminal the last picture of the progress is the table of the steps already; of many steps each has its line.
    with_steps = isinstance(progress, PlainProgress) and len(facts.steps) <= MANY_STEPS
    say("\n" + summary(facts, report, with_steps=with_steps, home_option=home_option))
    if facts.status == "Stopped" and facts.can_go_on:
        say(f"Go on: drivetrain runs resume {facts.id}{home_option}")
    failures = facts.failures()
    if failures:
        from drivetrain.cli.runs.failure import failure_block

        for step in failures:
            say("\n" + failure_block(home, facts.id, step))
