"""The flow of an apply, on a place in memory: what is refused, in what order it is written, what is taken back."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import Applied, HalfDoneError, Journal, Left, StaleError, Written, apply
from drivetrain.deploying.plan import Plan, Terms


class Wanted(NamedTuple):
    name: str = "nightly"
    fingerprint: str = "code"
    sha256: str = "definition"


class There(NamedTuple):
    state: str
    ids: dict[str, str]


class UnansweredError(UserError):
    """The place gave no answer."""


@dataclass
class Memory:
    """A place whose pipeline is one word. `repaired` is what is there once nobody else writes."""

    state: str | None = None
    wanted: Wanted = field(default_factory=Wanted)
    where: str = "memory"
    unanswered: type[UserError] = UnansweredError
    refused: str | None = None
    fails: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    repaired: str | None = None
    is_written: bool = True
    lacks_code: bool = False
    calls: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.journal = Journal(self.told.append)

    def called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise self.fails[name]

    def read(self) -> There | None:
        return None if self.state is None else There(self.state, {"id": "7"})

    def state_of(self, there: There | None) -> str:
        return "nothing" if there is None else there.state

    def plan(self, there: There | None, terms: Terms) -> Plan:
        if there is not None and there.state in self.fails:
            raise self.fails[there.state]
        return Plan(
            discarded=terms.discarded,
            target="memory",
            pipeline=self.wanted.name,
            place=self.where,
            action="create" if there is None else "none" if self.is_done(there) else "update",
            state=self.state_of(there),
            code=self.wanted.fingerprint,
            definition_sha256=self.wanted.sha256,
            num_steps=1,
            num_parameters=0,
            storage="memory",
            refusal=None if "all" in terms.discarded else self.refused,
        )

    def is_done(self, there: There) -> bool:
        return there.state == self.wanted.sha256 and not self.lacks_code

    def changed_by(self, there: There | None) -> str:
        return " Last written by ana."

    @contextmanager
    def alone(self) -> Generator[None]:
        self.called("lock")
        self.state = self.repaired or self.state
        yield
        self.calls.append("unlock")

    def upload(self, plan: Plan) -> None:
        self.called("upload")
        self.lacks_code = False

    def write(self, there: There | None, plan: Plan) -> Written:
        before = self.state
        self.journal.can_undo("the definition", lambda: self.put_back(before))
        self.called("write")
        if self.is_written:
            self.state = self.wanted.sha256
        self.journal.add("wrote the definition")
        self.journal.add("wrote a schedule", lambda: self.called("undo schedule"))
        self.called("trigger")
        return Written("the pipeline", {"id": "7"}, 3)

    def put_back(self, before: str | None) -> bool:
        if self.state == before:
            return False
        self.state = before
        return True

    def half_done(self, error: UserError | None, undone: Sequence[str], left: Sequence[Left]) -> str:
        return f"{error}; back: {', '.join(undone)}; left: {', '.join(f'{what} ({why})' for what, why in left)}"

    def read_again(self) -> list[str]:
        self.called("read again")
        return [] if self.state == self.wanted.sha256 else ["the definition", "a tag"]


def planned(place: Memory, terms: Terms | None = None) -> Plan:
    return place.plan(place.read(), terms or Terms())


def applied(place: Memory) -> Applied:
    return apply(place, planned(place))


def test_differences_are_written_between_two_reads() -> None:
    place = Memory("old")
    done = applied(place)
    assert place.calls == ["upload", "lock", "write", "trigger", "read again", "unlock"]
    assert (done.address, done.version, done.is_empty) == ("the pipeline", 3, False)
    assert done.said == {
        "pipeline": "nightly",
        "id": "7",
        "action": "update",
        "version": 3,
        "definition_sha256": "definition",
        "done": ["wrote the definition", "wrote a schedule"],
    }
    assert place.told == done.said["done"]


def test_without_differences_nothing_is_written() -> None:
    place = Memory("definition")
    done = applied(place)
    assert done.is_empty and place.calls == [] and done.said["id"] == "7" and done.said["action"] == "none"


def test_an_upload_alone_is_an_update_too() -> None:
    done = applied(Memory("definition", lacks_code=True))
    assert not done.is_empty and done.said["action"] == "update"


def test_a_new_pipeline_is_uploaded_again_under_the_lock() -> None:
    """Somebody may have destroyed an earlier one in between, and its code with it."""
    place = Memory()
    applied(place)
    assert place.calls[:3] == ["upload", "lock", "upload"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"pipeline": "weekly"}, "The plan is for pipeline 'weekly' in memory; this is 'nightly' in memory"),
        ({"place": "elsewhere"}, "The plan is for pipeline 'nightly' in elsewhere; this is 'nightly' in memory"),
        ({"code": "other"}, "The plan is stale: the code or its settings are not those it was made of. Make a new"),
        ({"state": "older"}, "was changed since it was made. Last written by ana. Make a new plan: drivetrain plan"),
    ],
)
def test_a_plan_of_another_pipeline_is_refused_before_any_write(changed: dict[str, str], says: str) -> None:
    place = Memory("old")
    with pytest.raises(UserError, match=says.replace(".", r"\.")):
        apply(place, planned(place).model_copy(update=changed))
    assert "upload" not in place.calls and "write" not in place.calls


def test_apply_waits_while_another_apply_rolls_back() -> None:
    """A stale plan is checked once more while nobody else writes."""
    place = Memory("old", repaired="old")
    plan = planned(place)
    place.state = "half-written"
    assert not apply(place, plan).is_empty
    with pytest.raises(StaleError):
        apply(Memory("new"), plan)


def test_an_unreadable_changed_state_is_reported_as_stale() -> None:
    place = Memory("old", repaired="old", fails={"half-written": UserError("It says nonsense.")})
    plan = planned(place)
    place.state = "half-written"
    assert not apply(place, plan).is_empty
    with pytest.raises(StaleError):
        apply(Memory("half-written", fails=place.fails), plan)


def test_the_refusal_in_a_plan_file_is_not_trusted() -> None:
    place = Memory("old", refused="It is another one's.")
    with pytest.raises(UserError, match="It is another one's"):
        apply(place, planned(place).model_copy(update={"refusal": None}))
    assert "write" not in place.calls
    assert not apply(place, planned(place, Terms(discarded=("all",)))).is_empty


def test_writes_are_rolled_back_in_reverse_order() -> None:
    place = Memory("old", fails={"trigger": UserError("denied")})
    with pytest.raises(HalfDoneError, match=r"denied; back: wrote a schedule, the definition; left: $"):
        applied(place)
    assert place.state == "old" and place.calls[-1] == "undo schedule"


def test_a_failed_rollback_is_named_and_the_rest_is_rolled_back() -> None:
    place = Memory("old", fails={"trigger": UserError("denied"), "undo schedule": TimeoutError()})
    with pytest.raises(HalfDoneError, match=r"back: the definition; left: wrote a schedule \(TimeoutError\)"):
        applied(place)
    assert place.state == "old"


@pytest.mark.parametrize("first", [UserError("denied"), KeyboardInterrupt()])
def test_an_interrupt_ends_the_rollback(first: BaseException) -> None:
    place = Memory("old", fails={"trigger": first, "undo schedule": KeyboardInterrupt("again")})
    with pytest.raises(KeyboardInterrupt, match="again"):
        applied(place)
    assert place.state == "definition" and place.calls[-1] == "undo schedule"


def test_writes_that_need_no_rollback_are_not_named() -> None:
    place = Memory("old", fails={"write": UserError("denied")})
    with pytest.raises(HalfDoneError, match=r"denied; back: ; left: $"):
        applied(place)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError("a fault")])
def test_interrupts_and_bugs_are_reraised_after_a_full_rollback(error: BaseException) -> None:
    place = Memory("old", fails={"trigger": error})
    with pytest.raises(type(error)):
        applied(place)
    assert place.state == "old" and place.told[-1] == "None; back: wrote a schedule, the definition; left: "


def test_rollback_keeps_and_names_values_that_others_changed() -> None:
    place = Memory("old", is_written=False)
    with pytest.raises(UserError, match=r"no longer as written \(the definition, a tag\): another user is changing"):
        applied(place)
    assert "undo schedule" not in place.calls


def test_a_failed_verification_read_does_not_undo_the_apply() -> None:
    place = Memory("old", fails={"read again": UnansweredError("throttled")})
    assert applied(place).said["done"][-1] == "Applied, but could not be checked: throttled"


def test_an_error_in_the_verification_read_is_reported() -> None:
    with pytest.raises(UserError, match="Another writer took over the lock"):
        applied(Memory("old", fails={"read again": UserError("Another writer took over the lock.")}))
