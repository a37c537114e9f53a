"""Make what is deployed what the code says: exactly the plan, or nothing.

    check        the plan is of this code, of this place and of what is there now
    upload       code and data, named by their hashes: nothing refers to them yet
    check again  uploads take minutes, and the pipeline may have changed meanwhile
    write        one thing after the other; a refusal in between takes back what was written, the latest first
    read again   it is as it was written

A target says how each of it is done there: a `Place`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from drivetrain.base.errors import UserError

if TYPE_CHECKING:
    from drivetrain.deploying.plan import Plan, Terms

Tell = Callable[[str], None]
Undo = Callable[[], object]
"""Takes one write back. It gives False where there was nothing to take back, and raises where it must not or cannot."""

Left = tuple[str, str]
"""A thing that was not taken back, and why."""


class HalfDoneError(UserError):
    """Apply failed on the way; the message says what was taken back, and what was not."""


class StaleError(UserError):
    """The pipeline was changed since the plan was made."""


class Journal:
    """A log of one apply, with an undo for each thing that it wrote."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.done: list[str] = []
        self._undo: list[tuple[str, Undo]] = []

    def add(self, line: str, undo: Undo | None = None) -> None:
        """Something was done; `undo` takes it back."""
        if undo is not None:
            self.can_undo(line, undo)
        self.done.append(line)
        self.tell(line)

    def can_undo(self, what: str, undo: Undo) -> None:
        """Something is about to be written that may fail half-way."""
        self._undo.append((what, undo))

    def take_back(self) -> tuple[list[str], list[Left]]:
        """Undo what was written, the latest first; gives what was taken back, and what was not and why.

        An interrupt ends it: the next apply goes on from there.
        """
        undone: list[str] = []
        left: list[Left] = []
        for what, undo in reversed(self._undo):
            try:
                if undo() is not False:
                    undone.append(what)
            except Exception as trouble:
                left.append((what, str(trouble) or type(trouble).__name__))
        return undone, left


@dataclass(frozen=True)
class Written:
    """A pipeline that was written: `address` for people, `ids` for scripts, such as its ARN."""

    address: str
    ids: Mapping[str, str]
    version: int | str | None = None


@dataclass(frozen=True)
class Applied:
    """The result of apply; `said` is the whole of it for scripts."""

    address: str
    version: int | str | None
    is_empty: bool
    """True where there was nothing to do."""
    said: Mapping[str, Any]


class Deployed(Protocol):
    """A pipeline as it is deployed."""

    @property
    def ids(self) -> Mapping[str, str]:
        """Its names for scripts, such as its ARN."""
        ...


D = TypeVar("D", bound=Deployed)


class Place(Protocol[D]):
    """One pipeline and its place (an account and region, a namespace of a cluster), as one apply writes it.

    All methods raise UserError with one clear message.
    """

    where: str
    """`account 123456789012, us-east-1`."""
    wanted: Any
    """The pipeline in code: `name`, `fingerprint` of all that applying writes, `sha256` of the definition."""
    unanswered: type[UserError]
    """Errors of a target that gave no answer; they say nothing about what was written."""
    journal: Journal

    def read(self) -> D | None:
        """The pipeline as it is deployed now; None if it is not deployed."""
        ...

    def state_of(self, there: D | None) -> str:
        """The fingerprint of what is deployed, as a plan's `state`."""
        ...

    def plan(self, there: D | None, terms: Terms) -> Plan:
        """Compare; nothing is written."""
        ...

    def changed_by(self, there: D | None) -> str:
        """A sentence that says who wrote last, with a space before it; empty if unknown."""
        ...

    def alone(self) -> AbstractContextManager[object]:
        """While it is held, no other apply of ours writes this pipeline, where the target can do that."""
        ...

    def upload(self, plan: Plan) -> None:
        """Write what nothing refers to yet: code, data, records."""
        ...

    def write(self, there: D | None, plan: Plan) -> Written:
        """Write what differs. When this raises, what the journal can undo is taken back."""
        ...

    def half_done(self, error: UserError | None, undone: Sequence[str], left: Sequence[Left]) -> str:
        """The message about an apply that failed; without an error, about one that was interrupted."""
        ...

    def read_again(self) -> list[str]:
        """Look whether all is as it was written; gives what is not."""
        ...


def apply(place: Place[Any], plan: Plan) -> Applied:
    """Write what differs between the code as it is now, which must be what the plan was made of, and what is there.

    Raises:
        UserError: the plan is stale, or would undo what others did (before anything is written).
        HalfDoneError: something was refused on the way.
    """
    try:
        there, first = checked(place, plan)
    except StaleError:
        with place.alone():  # what another one was writing at this moment may be taken back
            there, first = checked(place, plan)
    if first.is_empty and there is not None:
        return _applied(place, first, Written("", there.ids))
    place.upload(first)
    with place.alone():
        there, fresh = checked(place, plan)
        if there is None:  # somebody may have destroyed it meanwhile, and these with it
            place.upload(fresh)
        try:
            written = place.write(there, fresh)
        except (Exception, KeyboardInterrupt) as error:
            _take_back(place, error)
        _read_again(place, plan)
    return _applied(place, first, written)  # where objects alone were missing, the second plan is empty


def checked(place: Place[D], plan: Plan) -> tuple[D | None, Plan]:
    """Read what is deployed, and make the plan for it anew.

    Raises:
        StaleError: it is not what the plan was made of.
        UserError: the plan is of other code or of another place, or would undo what others did.
    """
    wanted, again = place.wanted, f"Make a new plan: drivetrain plan {plan.as_given}"
    if (plan.pipeline, plan.place) != (wanted.name, place.where):
        raise UserError(
            f"The plan is for pipeline {plan.pipeline!r} in {plan.place}; this is {wanted.name!r} in {place.where}."
        )
    if plan.code != wanted.fingerprint:
        raise UserError(f"The plan is stale: the code or its settings are not those it was made of. {again}")
    there = place.read()
    if plan.state != place.state_of(there):
        changed_by = place.changed_by(there)
        raise StaleError(
            f"The plan is stale: pipeline {wanted.name!r} was changed since it was made.{changed_by} {again}"
        )
    # The plan may be a file that was edited: only the edits that it allows to discard are taken from it.
    fresh = place.plan(there, plan.terms)
    if fresh.refusal is not None:
        raise UserError(fresh.refusal)
    return there, fresh


def _take_back(place: Place[Any], error: BaseException) -> NoReturn:
    """Undo what was written, and raise what is to be said; an interrupt or a fault of ours stays what it is."""
    undone, left = place.journal.take_back()
    if isinstance(error, UserError):
        raise HalfDoneError(place.half_done(error, undone, left)) from error
    if said := place.half_done(None, undone, left):
        place.journal.tell(said)
    raise error


def _read_again(place: Place[Any], plan: Plan) -> None:
    """
    Raises:
        UserError: it is not what was written, or another writer took over the lock.
    """
    try:
        wrong = place.read_again()
    except place.unanswered as error:
        place.journal.add(f"Applied, but could not be checked: {error}")
        return
    if wrong:
        raise UserError(
            f"Pipeline {plan.pipeline!r} was written, but is no longer as written ({', '.join(wrong)}): another user "
            f"is changing it at the same time. See what differs: drivetrain plan {plan.as_given}"
        )


def _applied(place: Place[Any], plan: Plan, written: Written) -> Applied:
    said = {
        "pipeline": plan.pipeline,
        **written.ids,
        "action": plan.action,
        "version": written.version,
        "definition_sha256": place.wanted.sha256,
        "done": place.journal.done,
    }
    return Applied(written.address, written.version, plan.is_empty, said)
