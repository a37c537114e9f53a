"""Runs a definition on this machine.

runner = Runner(Home(), observer)
summary = runner.start(text, {"epochs": "3"}, Options(pipeline="retraining"), assets=compiled.assets)
summary = runner.resume("latest")
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.base.masking import Masking
from drivetrain.run_store.durable import go_on, no_space
from drivetrain.run_store.events import ExecutionFinished, Observer, ignore
from drivetrain.run_store.home import Home, SavedRequest, why_not_resumed
from drivetrain.run_store.model import Run
from drivetrain.run_store.objects import Asset, ObjectStore, put_assets
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.run_values import begun_with
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.spec.resources import SOURCE_VERSION
from drivetrain.steps import FRESH_PARAMETER
from drivetrain.targets.sagemaker.document import graph
from drivetrain.targets.sagemaker.document.document import Definition, read
from drivetrain.targets.sagemaker.run.checks import check
from drivetrain.targets.sagemaker.run.execution.execution import Execution
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope
from drivetrain.targets.sagemaker.run.options import Options, Request

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.execution.selecting import Selection


class Runner:
    """Runs definitions in a home; events go to `observer` in the calling thread.

    In the main thread SIGINT, SIGTERM and SIGHUP stop the run: jobs get SIGTERM, a grace, and SIGKILL, and the
    execution ends as Stopped, which can be resumed. A second signal shortens the grace to nothing.
    """

    def __init__(self, home: Home, observer: Observer = ignore) -> None:
        self.home = home
        self.observer = observer

    def start(
        self,
        text: str | bytes,
        parameters: Mapping[str, Any],
        options: Options,
        *,
        assets: Iterable[Asset] = (),
        source: str = "definition",
        fresh: bool = False,
    ) -> ExecutionFinished:
        """Run a definition from its beginning.

        Args:
            text: the definition's JSON.
            parameters: given values; the rest are defaults.
            assets: objects to be put into the store first.
            source: where the text is from, for messages.
            fresh: take nothing that earlier runs left: no cached result and no checkpoint; trust no time of a file.

        Raises:
            UserError: everything that is wrong with the definition, the parameters or the options, found before
                anything starts; a full disk.
        """
        definition = read(text, source)
        id = os.urandom(6).hex()
        if fresh:
            from drivetrain.targets.fresh import made_fresh

            parameters = made_fresh((one.name for one in definition.parameters), parameters, id)
            options = replace(options, cache=False)
        bound = _bound(definition, parameters)
        request = Request(text.decode("utf-8-sig") if isinstance(text, bytes) else text, bound, options)
        with no_space(str(self.home.root), "run it again"):
            self.home.create()
            store = ObjectStore(self.home.objects, options.data)
            if assets := tuple(assets):
                with LedgerWriter(self.home) as ledger:
                    put_assets(store, assets, ledger, verify=fresh)
            request = self._with_reference(request)
            self._select(definition, request, store)
        # The time of start is only known once the ledger has it; nothing that is checked depends on it.
        masking, request = self._check(definition, request, id, store)
        if fresh:
            from drivetrain.targets.sagemaker.run.execution.fresh import refuse_kept_checkpoints

            refuse_kept_checkpoints(definition, self._scope(definition, request, id, store), store)
        with (
            no_space(str(self.home.root), "run it again"),
            LedgerWriter(self.home) as ledger,
            self.home.lock(id),
        ):
            ledger.masking = masking
            ledger.facts = self._facts(request, id, 0.0)
            request.save(self.home.run(id))
            started = ledger.begin(
                id,
                options.pipeline,
                definition_hash=request.definition_hash,
                request_hash=request.hash,
                parameters=bound,
                steps=[(step.name, step.type, step.display_name or step.name) for step in definition.walk()],
                name=options.name,
                values=begun_with(masking(bound), masking(options.settings), options.tags),
            )
            return self._run(definition, request, id, started, store, ledger, resumed=False)

    def resume(
        self,
        execution: str,
        options: Options | None = None,
        *,
        text: str | None = None,
        assets: Iterable[Asset] = (),
    ) -> ExecutionFinished:
        """Go on with an execution that was interrupted, stopped, or failed: what it has done is not done again.

        Args:
            execution: its id, the beginning of it, or `latest`.
            options: instead of those with which it was started.
            text: another definition to go on with: steps that it changes, and what needs them, are done again.
            assets: objects that it reads.

        Raises:
            UserError: it is running, it has succeeded, or its folder is gone; a definition that cannot run, or with
                which a training could not go on from its checkpoints.
        """
        from drivetrain.targets.sagemaker.run.resume.other_training import refuse_another_training
        from drivetrain.targets.sagemaker.run.resume.redefining import Redefinition, given_parameters
        from drivetrain.targets.sagemaker.run.resume.resuming import damaged_steps, settle_earlier_attempts

        with Ledger(self.home) as ledger:
            row = ledger.execution(execution)
        if row.status == "Succeeded":
            raise UserError(f"Execution {row.id} of {row.pipeline} has succeeded: there is nothing to resume.")
        if reason := why_not_resumed(self.home.run(row.id)):
            raise UserError(f"Execution {row.id} cannot be resumed: {reason}")
        with (
            no_space(str(self.home.root), go_on(row.id)),
            self.home.lock(row.id),
            LedgerWriter(self.home) as ledger,
        ):
            saved = self._saved(row, ledger)
            steps = ledger.steps(row.id)
            request = replace(saved, options=_going_on(options, saved.options))
            if text is not None:
                given = given_parameters(read(saved.text, f"execution {row.id}"), saved.parameters)
                fits = {p.name for p in read(text, "the new definition").parameters}
                bound = _bound(read(text), {name: value for name, value in given.items() if name in fits})
                request = replace(request, text=text, parameters=bound)
            definition = read(request.text, f"execution {row.id}")
            store = ObjectStore(self.home.objects, request.options.data)
            put_assets(store, assets, ledger)
            ledger.masking, request = self._check(definition, request, row.id, store)
            ledger.facts = self._facts(request, row.id, row.started)
            if text is not None:
                before = read(saved.text, f"execution {row.id}")
                refuse_another_training(
                    (before, self._scope(before, saved, row.id, store, row.started)),
                    (definition, self._scope(definition, request, row.id, store, row.started)),
                    {step.name: step for step in steps},
                    store,
                    row.id,
                )
            settle_earlier_attempts(row.id, self.home, store, ledger)
            damaged = damaged_steps(row.id, request.options.selected, store, ledger)
            if text is not None or damaged:
                Redefinition.begin(row.id, saved, request, ledger, damaged).complete(row.id, ledger, store)
            elif request != saved:
                request.save(self.home.run(row.id))
            return self._run(definition, request, row.id, row.started, store, ledger, resumed=True, damaged=damaged)

    def _saved(self, row: Run, ledger: LedgerWriter) -> Request:
        """Load the request of an execution; if a dead runner had begun to enter another definition, complete that
        first."""
        from drivetrain.targets.sagemaker.run.resume.redefining import Redefinition

        folder = self.home.run(row.id)
        begun = Redefinition.pending(folder)
        if begun is None:
            return Request.load(folder)
        request = begun.request
        store = ObjectStore(self.home.objects, request.options.data)
        definition = read(request.text, f"execution {row.id}")
        ledger.masking = self._scope(definition, request, row.id, store, row.started).masking
        begun.complete(row.id, ledger, store)
        return request

    def find_interrupted(
        self, text: str | bytes, parameters: Mapping[str, Any], options: Options, *, source: str = "definition"
    ) -> str | None:
        """The latest execution of the same definition, parameters, pipeline, selected steps and execution that the
        others are taken from, if its runner died; None where its folder was removed.

        Raises:
            UserError: the execution that steps which are not selected are to be taken from is not there.
        """
        bound = _bound(read(text, source), parameters)
        request = Request(text.decode("utf-8-sig") if isinstance(text, bytes) else text, bound, options)
        with Ledger(self.home) as ledger:
            if options.selected:
                options = replace(options, selected_from=self._source(options, ledger))
                request = replace(request, options=options)
            id = ledger.latest_unfinished(request.hash)
        can_go_on = id is not None and SavedRequest.is_kept(self.home.run(id)) and not self.home.is_running(id)
        return id if can_go_on else None

    def _source(self, options: Options, ledger: Ledger) -> str | None:
        """The execution that steps which are not selected are taken from, should one that has them go on: of the
        latest, where that was interrupted itself, the one from which it took them."""
        if options.selected_from not in (None, "latest"):
            return ledger.execution(options.selected_from).id
        latest = ledger.executions(limit=1, pipeline=options.pipeline)
        if not latest:
            return None
        folder = self.home.run(latest[0].id)
        if latest[0].status != "Interrupted" or not folder.is_dir():
            return latest[0].id
        return Request.load(folder).options.selected_from

    def _with_reference(self, request: Request) -> Request:
        """The request with the execution that steps which are not selected are taken from."""
        if not request.options.selected:
            return request
        from drivetrain.targets.sagemaker.run.execution.selecting import reference

        with Ledger(self.home) as ledger:
            source = reference(ledger, request.options.pipeline, request.options.selected_from)
        return replace(request, options=replace(request.options, selected_from=source))

    def _select(self, definition: Definition, request: Request, store: ObjectStore) -> Selection | None:
        """The selected steps, or None if all steps run.

        Raises:
            UserError: what cannot be selected.
        """
        if not request.options.selected:
            return None
        from drivetrain.targets.sagemaker.run.execution.selecting import select

        graph.check(definition)
        with Ledger(self.home) as ledger:
            return select(definition, request.options.selected, ledger, store, request.options.selected_from)

    def _check(self, definition: Definition, request: Request, id: str, store: ObjectStore) -> tuple[Masking, Request]:
        """Refuse what cannot run; gives what must not be kept, and the request with what was copied for it."""
        scope, options = self._scope(definition, request, id, store), request.options
        if not options.read_s3:
            check(definition, scope, options, store)
            return scope.masking, request
        from drivetrain.targets.sagemaker.run.jobs.s3_inputs import S3Inputs

        inputs = S3Inputs(self.home.s3_inputs, store, options.s3_views)
        check(definition, scope, options, store)
        inputs.bring()
        return scope.masking, replace(request, options=replace(options, s3_views=inputs.views))

    def _scope(
        self, definition: Definition, request: Request, id: str, store: ObjectStore, started: float = 0.0
    ) -> ExecutionScope:
        return ExecutionScope(definition, self._facts(request, id, started), request.parameters, store)

    def _facts(self, request: Request, id: str, started: float) -> Facts:
        options = request.options
        return Facts(id, options.pipeline, options.region, options.account, started)

    def _run(
        self,
        definition: Definition,
        request: Request,
        id: str,
        started: float,
        store: ObjectStore,
        ledger: LedgerWriter,
        *,
        resumed: bool,
        damaged: Mapping[str, str] | None = None,
    ) -> ExecutionFinished:
        selection = self._select(definition, request, store)
        search = None
        # A definition as it came says by its looks that something starts it.
        if not resumed and (request.options.triggered or SOURCE_VERSION in request.text):
            from drivetrain.targets.sagemaker.run.execution.nothing_new import search_of

            search = search_of(id, definition, request.options, ledger, store)
        execution = Execution(
            home=self.home,
            definition=definition,
            facts=self._facts(request, id, started),
            scope=self._scope(definition, request, id, store, started),
            options=request.options,
            store=store,
            ledger=ledger,
            observe=self.observer,
            selection=selection,
            search=search,
            damaged=dict(damaged or {}),
        )
        return execution.run(resumed=resumed)


def _bound(definition: Definition, given: Mapping[str, Any]) -> dict[str, Any]:
    """The typed value of every parameter of a definition.

    Raises:
        UserError: as `bind`.
    """
    if not given and all(one.name == FRESH_PARAMETER for one in definition.parameters):
        return {one.name: one.default for one in definition.parameters}
    from drivetrain.spec.binding import bind

    return bind(definition.parameters, given)


def _going_on(given: Options | None, saved: Options) -> Options:
    """The options of a resumed execution: which steps it runs, and from where it takes the rest, stay the same."""
    if given is None:
        return saved
    kept = {"selected": saved.selected, "selected_from": saved.selected_from, "s3_views": saved.s3_views}
    return replace(given, **kept, read_s3=given.read_s3 or saved.read_s3)
