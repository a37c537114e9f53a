"""Lines of candidates, and what is kept of them: the evidence of a group, which its registry keeps.

A line is one pipeline (its code and settings, but for what differs from training to training), one champion, one metric
and one set of test rows, or rows that are new each night. Each comparison is a night of its line. The same test again,
whenever it comes, is the night that it was.

    kept, standing = entered(kept, tonight, error=0.05, allowed=4)
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from drivetrain.base.errors import InputError
from drivetrain.data.array_file import packed_arrays, unpacked_arrays
from drivetrain.data.arrow import numpy
from drivetrain.decision.nights import LOOKS, Pooled, by_nights, by_rows, next_look
from drivetrain.decision.standing import Night, Standing, total

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Keys = NDArray[np.uint64]

YEAR_SECONDS = 365 * 86_400.0
_KIND, FORMAT = "lines", 1
_ARRAYS = ("keys", "sums", "parts", "seen")


@dataclass(frozen=True, kw_only=True)
class Tonight:
    """A comparison of a candidate with the champion."""

    champion: str
    """The content's hash, as `candidate`."""
    candidate: str
    pipeline: str
    """The hash of its code and settings."""
    metric: str
    margin: float
    run: str
    gain: float
    """The difference that is shown, in the direction in which the metric is better."""
    rows: Keys
    """The key of each test row."""
    keys: Keys
    """The keys of the rows that are evidence on the metric (or of what these share)."""
    parts: Floats
    """The part of each of these in the gain."""
    bound: float = 0.0
    """As in Night."""
    at: float = field(default_factory=time.time)

    @property
    def test_set(self) -> str:
        return hashlib.sha256(numpy().sort(self.rows).tobytes()).hexdigest()


@dataclass(kw_only=True)
class _Line:
    """The kept state of a line: `parts` at each look so far and in sum, by `keys`; `seen` are the rows of a line whose
    rows are new each night."""

    number: int
    champion: str
    pipeline: str
    metric: str
    margin: float
    test_set: str
    rows: Literal["", "reused", "new"] = ""
    nights: list[Night] = field(default_factory=list[Night])
    keys: Keys
    sums: Floats
    parts: Floats
    seen: NDArray[np.uint32]

    @property
    def started(self) -> float:
        return self.nights[0].at


def entered(kept: bytes, tonight: Tonight, *, error: float, allowed: int) -> tuple[bytes, Standing]:
    """Enter a comparison into the evidence of a group.

    Args:
        kept: the evidence so far; empty at first.
        error: how often, in a year, a candidate may be promoted though its line is no better than the champion.
        allowed: how many lines a year share that.

    Returns:
        The evidence with it, and where its line stands.

    Raises:
        InputError: the evidence is damaged, or of a later version.
    """
    lines = [line for line in _read(kept) if tonight.at - line.nights[-1].at < YEAR_SECONDS]
    starts = sorted(line.started for line in lines if tonight.at - line.started < YEAR_SECONDS)
    started = len(starts)
    mine = [line for line in reversed(lines) if _is_of(line, tonight)]
    for line in mine:
        for number, night in enumerate(line.nights, 1):
            if (night.test_set, night.candidate) == (tonight.test_set, tonight.candidate):
                return kept, _standing(line, number, error, allowed, started)
    line = next((line for line in mine if _goes_on(line, tonight)), None)
    if line is None:
        idle = next((line for line in mine if _is_idle(line, tonight)), None)
        if idle is not None:
            return kept, replace(
                _standing(idle, len(idle.nights), error, allowed, started), gain=tonight.gain, idle=True
            )
        if started >= allowed:
            frees = starts[started - allowed] + YEAR_SECONDS
            return kept, Standing(level=error / allowed, lines=started, allowed=allowed, frees=frees)
        line = _started(max((line.number for line in lines), default=0) + 1, tonight)
        lines.append(line)
        started += 1
    _add(line, tonight, error / allowed)
    return _written(lines), _standing(line, len(line.nights), error, allowed, started)


def _is_of(line: _Line, tonight: Tonight) -> bool:
    return (line.champion, line.pipeline, line.metric, line.margin) == (
        tonight.champion,
        tonight.pipeline,
        tonight.metric,
        tonight.margin,
    )


def _goes_on(line: _Line, tonight: Tonight) -> bool:
    """True where tonight is a night of the line: on the same rows, or with rows that it has not had."""
    if len(line.nights) >= LOOKS[-1]:
        return False
    if line.rows != "new" and line.test_set == tonight.test_set:
        return True
    return line.rows != "reused" and not _has_seen(line, tonight)


def _is_idle(line: _Line, tonight: Tonight) -> bool:
    """True where tonight has no rows that the line has not had: it is compared, and adds nothing."""
    return line.rows != "reused" and len(line.nights) < LOOKS[-1] and _has_seen(line, tonight)


def _has_seen(line: _Line, tonight: Tonight) -> bool:
    return bool(numpy().isin(_short(tonight.rows), line.seen).all())


def _started(number: int, tonight: Tonight) -> _Line:
    return _Line(
        number=number,
        champion=tonight.champion,
        pipeline=tonight.pipeline,
        metric=tonight.metric,
        margin=tonight.margin,
        test_set=tonight.test_set,
        keys=numpy().zeros(0, numpy().uint64),
        sums=numpy().zeros(0),
        parts=numpy().zeros((0, 0)),
        seen=numpy().zeros(0, numpy().uint32),
    )


def _add(line: _Line, tonight: Tonight, level: float) -> None:
    """One more night: its evidence, and the verdict where it is a look."""
    if line.nights and not line.rows:
        line.rows = "reused" if line.test_set == tonight.test_set else "new"
    parts = tonight.parts
    if line.rows == "new":
        line.keys, line.sums, line.parts = line.keys[:0], line.sums[:0], line.parts[:0, :0]
        is_new = ~numpy().isin(_short(tonight.keys), line.seen)
        parts = parts[is_new] * (len(is_new) / max(int(is_new.sum()), 1))  # each row counts once
    if line.rows != "reused":
        line.seen = numpy().union1d(line.seen, _short(numpy().concatenate([tonight.rows, tonight.keys])))
    else:
        line.seen = line.seen[:0]
    pooled: Pooled | None = None
    number = len(line.nights) + 1
    gains = [*(night.pooled for night in line.nights), total(parts.tolist())]
    shifted = [each - line.margin for each in gains]
    if line.rows != "new":
        _pool(line, tonight)
        if number in LOOKS:
            pooled = by_rows(line.parts - line.margin / max(line.parts.shape[1], 1), shifted, level)
    elif number in LOOKS:
        pooled = by_nights(shifted, level)
    line.nights.append(
        Night(
            candidate=tonight.candidate,
            run=tonight.run,
            at=tonight.at,
            test_set=tonight.test_set,
            gain=tonight.gain,
            pooled=gains[-1],
            bound=tonight.bound,
            mean=None if pooled is None else pooled.gain + line.margin,
            least=None if pooled is None or pooled.least is None else pooled.least + line.margin,
        )
    )


def _pool(line: _Line, tonight: Tonight) -> None:
    """Add what each row says to its sum, and at a look note its mean over the nights."""
    if not numpy().array_equal(line.keys, tonight.keys):
        every = numpy().union1d(line.keys, tonight.keys)
        place = numpy().searchsorted(every, line.keys)
        sums, parts = numpy().zeros(len(every)), numpy().zeros((len(line.parts), len(every)))
        sums[place], parts[:, place] = line.sums, line.parts
        line.keys, line.sums, line.parts = every, sums, parts
    numpy().add.at(line.sums, numpy().searchsorted(line.keys, tonight.keys), tonight.parts)
    number = len(line.nights) + 1
    if number in LOOKS:
        line.parts = numpy().vstack([line.parts, line.sums / number])


def _short(keys: Keys) -> NDArray[np.uint32]:
    """Keys of half the size: of two million rows one in two thousand that is new is taken for one that is not."""
    return (keys * numpy().uint64(0x9E3779B97F4A7C15) >> numpy().uint64(32)).astype(numpy().uint32)


def _standing(line: _Line, number: int, error: float, allowed: int, started: int) -> Standing:
    return Standing(
        level=error / allowed,
        lines=started,
        allowed=allowed,
        line=line.number,
        rows=line.rows,
        margin=line.margin,
        nights=tuple(line.nights[:number]),
        next_look=next_look(number),
        gain=line.nights[number - 1].gain,
    )


def _read(kept: bytes) -> list[_Line]:
    if not kept:
        return []
    advice = 'Restore it, or compare with nights="bonferroni".'
    about, arrays = unpacked_arrays(kept, "the evidence of earlier comparisons", _KIND, FORMAT, advice)
    try:
        return [
            _Line(
                **{**entry, "nights": [Night(**night) for night in entry["nights"]]},
                **{name: arrays[f"{entry['number']}.{name}"] for name in _ARRAYS},
            )
            for entry in about["lines"]
        ]
    except (KeyError, TypeError) as error:
        raise InputError(f"the evidence of earlier comparisons is damaged ({error}). {advice}") from None


def _written(lines: list[_Line]) -> bytes:
    entries: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for line in lines:
        entry = {**vars(line), "nights": [asdict(night) for night in line.nights]}
        arrays |= {f"{line.number}.{name}": entry.pop(name) for name in _ARRAYS}
        entries.append(entry)
    return packed_arrays({"kind": _KIND, "format": FORMAT, "lines": entries}, arrays)
