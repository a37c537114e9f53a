"""The table of strategies for a plan, and the choice with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from drivetrain.base.degrees import World, all_degrees, data_size, fill
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.catalog.instances import GIB
from drivetrain.catalog.strategies import THREADS, TORCH, StrategyFacts, all_strategies
from drivetrain.recommend.communication import Traffic, bubble, estimate_traffic
from drivetrain.recommend.memory import Memory, estimate_memory, least_memory
from drivetrain.recommend.sizing import HEADROOM, MICRO_BATCHES_A_STAGE, Candidate, Sizing

# The first that fits is chosen: each asks more of the recipe, of the links or of the reader than the one before.
SIMPLEST_FIRST = ("single", "ddp", "hsdp", "fsdp", "tp", "fsdp_tp", "pp", "pp_ddp", "tp_pp_fsdp", "cp")
# Equally simple: of these the quicker one is taken.
EQUALS = ("hsdp", "fsdp")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One strategy in the table. Without a candidate it is impossible here, and `note` says why."""

    strategy: str
    summary: str
    candidate: Candidate | None = None
    memory: Memory | None = None
    traffic: tuple[Traffic, ...] = ()
    bubble: float = 0.0
    fits: bool = False
    note: str = ""

    @property
    def sent_bytes(self) -> int:
        return sum(each.bytes for each in self.traffic)

    @property
    def seconds(self) -> float:
        """Communication of one step [s]."""
        return sum(each.seconds for each in self.traffic)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """All rows in the order of `SIMPLEST_FIRST`; `choice` is None where nothing fits, and `reason` says so."""

    plan: Sizing
    rows: tuple[Row, ...]
    choice: Row | None
    options: Mapping[str, Any]
    reason: str


def recommend(plan: Sizing, strategies: Mapping[str, StrategyFacts]) -> Recommendation:
    """The strategies for a plan, and which to take: the simplest that fits."""
    rows, chosen = _chosen(plan, strategies)
    if chosen is None:
        return Recommendation(
            plan=plan, rows=rows, choice=None, options={}, reason=_nothing_fits(plan, rows, strategies)
        )
    assert chosen.candidate is not None
    options = options_of(chosen.candidate, strategies[chosen.strategy], plan.world)
    return Recommendation(plan=plan, rows=rows, choice=chosen, options=options, reason=_reason(plan, chosen, rows))


def _chosen(plan: Sizing, strategies: Mapping[str, StrategyFacts]) -> tuple[tuple[Row, ...], Row | None]:
    rows = tuple(row(plan, strategies[name]) for name in _in_order(strategies))
    chosen = next((each for each in rows if each.fits), None)
    if chosen is not None and chosen.strategy in EQUALS:
        chosen = min((each for each in rows if each.fits and each.strategy in EQUALS), key=lambda each: each.seconds)
    return rows, chosen


def row(plan: Sizing, strategy: StrategyFacts) -> Row:
    """A strategy with the degrees that suit it best: those that fit before others, then the shortest time."""
    impossible = _impossible(plan, strategy)
    found = [] if impossible else [estimate(plan, strategy, each) for each in candidates(plan, strategy)]
    if not found:
        note = impossible or f"{plan.world.described()} cannot be laid out so for this recipe and batch"
        return Row(strategy=strategy.name, summary=strategy.summary, note=note)
    return min(
        found, key=lambda each: (not each.fits, each.seconds, each.bubble, each.memory.total if each.memory else 0)
    )


def estimate(plan: Sizing, strategy: StrategyFacts, candidate: Candidate) -> Row:
    """Memory and time of one candidate."""
    memory = estimate_memory(plan, candidate)
    return Row(
        strategy=strategy.name,
        summary=strategy.summary,
        candidate=candidate,
        memory=memory,
        traffic=tuple(estimate_traffic(plan, candidate)),
        bubble=bubble(candidate),
        fits=memory.total <= plan.usable_memory,
    )


def candidates(plan: Sizing, strategy: StrategyFacts) -> Iterator[Candidate]:
    """Ways to lay a strategy over the processes that this recipe, these links and this batch allow."""
    for degrees in _ways(strategy, plan.world):
        tensor, stages = degrees.get("tensor", 1), degrees.get("stage", 1)
        if plan.world.processes % tensor:
            continue
        if strategy.name == "hsdp" and degrees["shard"] != plan.world.processes:
            continue  # shards inside a host, replicas across: that is what it is for
        if stages == 1:
            yield Candidate(strategy.name, degrees)
            continue
        if stages > plan.facts.most_stages:
            continue
        samples = plan.global_batch // data_size(degrees)
        wanted = min(MICRO_BATCHES_A_STAGE * stages, samples)
        divides = plan.global_batch % (wanted * data_size(degrees)) == 0 if wanted else False
        micro_batches = wanted if divides else _largest_divisor(samples, wanted, data_size(degrees), plan)
        if micro_batches >= stages:
            yield Candidate(strategy.name, degrees, micro_batches)


def _ways(strategy: StrategyFacts, world: World) -> Iterator[dict[str, int]]:
    yield from all_degrees(strategy.dimensions, world.size)
    if strategy.dimensions == ("replicate", "context"):  # copies are no more than possible there
        yield {"replicate": 1, "context": world.size}


def options_of(candidate: Candidate, strategy: StrategyFacts, world: World) -> dict[str, Any]:
    """The strategy's options that say this candidate: none where its defaults do, and one dimension for the data is
    left to what is left over, so that the same options do on another number of processes."""
    defaults = {name: option.default or 0 for name, option in strategy.options.items() if name in strategy.dimensions}
    found: dict[str, Any] = {}
    if _filled(strategy, defaults, world) != candidate.degrees:
        found = {name: degree for name, degree in candidate.degrees.items() if defaults.get(name) not in (None, degree)}
        for name in ("replicate", "shard"):
            without = {key: degree for key, degree in found.items() if key != name}
            if name in found and _filled(strategy, {**defaults, **without}, world) == candidate.degrees:
                found = without
                break
    if candidate.degree("stage") > 1 and "micro_batches" in strategy.options:
        found["micro_batches"] = candidate.micro_batches
    return found


def _filled(strategy: StrategyFacts, wanted: Mapping[str, int], world: World) -> Mapping[str, int] | None:
    try:
        return fill(strategy.name, strategy.dimensions, wanted, world)
    except UserError:
        return None


def _largest_divisor(samples: int, most: int, parts: int, plan: Sizing) -> int:
    return (
        next((count for count in range(most, 0, -1) if plan.global_batch % (count * parts) == 0), 0) if samples else 0
    )


def _in_order(strategies: Mapping[str, StrategyFacts]) -> list[str]:
    known = [name for name in SIMPLEST_FIRST if name in strategies]
    return [*known, *sorted(name for name in strategies if name not in SIMPLEST_FIRST)]


def _impossible(plan: Sizing, strategy: StrategyFacts) -> str:
    """Why a strategy is out of the question here, or nothing."""
    world, facts, instance = plan.world, plan.facts, plan.instance
    if strategy.name == THREADS:
        return "one process with threads: ddp does the same faster"
    if strategy.library:
        return f"needs a library of its vendor's: it is chosen by name; {strategy.instead} does the same"
    if strategy.needs:
        return f"needs {', '.join(strategy.needs)}: it is chosen by name"
    if not strategy.dimensions:
        return "" if world.size == 1 else f"for one process; there are {world.size}"
    if world.size == 1:
        return "one process: nothing to share"
    if "tensor" in strategy.dimensions:
        if not facts.has_tensor_plan:
            return "the recipe has no tensor_plan()"
        if not instance.nvlink:
            return f"{instance.link} between the ranks of a host: too slow to wait for in every layer"
    if "stage" in strategy.dimensions and not facts.is_chain:
        return "the recipe's model is no nn.Sequential"
    if "context" in strategy.dimensions and not facts.has_context_plan:
        return "the recipe has no context_plan()"
    if strategy.name == "hsdp" and world.hosts == 1:
        return "one host: no hosts to copy the model to"
    return ""


def _reason(plan: Sizing, chosen: Row, rows: tuple[Row, ...]) -> str:
    """One plain sentence."""
    assert chosen.memory is not None and chosen.candidate is not None
    whose = "GPU" if plan.instance.gpus else "process"
    room = f"{_gib(chosen.memory.total)} of {_gib(plan.usable_memory)} usable"
    if plan.world.size == 1:
        return f"{chosen.strategy}: there is one {whose}, and the model with its training state fits it ({room})."
    ddp = next((each for each in rows if each.strategy == "ddp" and each.memory), None)
    if chosen.strategy == "ddp":
        return (
            f"ddp: every {whose} has room for the whole model with its training state ({room}), so only gradients "
            "travel."
        )
    shape = " x ".join(f"{name} {degree}" for name, degree in chosen.candidate.degrees.items())
    before = (
        f"the whole model would need {_gib(ddp.memory.total)} a {whose}"
        if ddp and ddp.memory
        else "nothing simpler is possible"
    )
    return f"{chosen.strategy} ({shape}): {before}; divided so it needs {room}, and nothing simpler fits."


def _nothing_fits(plan: Sizing, rows: tuple[Row, ...], strategies: Mapping[str, StrategyFacts]) -> str:
    whose = "GPU" if plan.instance.gpus else "process"
    tried = [each for each in rows if each.memory]
    if not tried:
        return f"no strategy can be laid over {plan.world.described()}."
    best = min(tried, key=lambda each: each.memory.total if each.memory else 0)
    assert best.memory is not None
    text = (
        f"nothing fits: the least is {best.strategy} with {_gib(best.memory.total)} a {whose}, and "
        f"{plan.instance.name} has {_usable(plan)}. The model with its training state is "
        f"{_gib(least_memory(plan.facts) * plan.stored)} in all."
    )
    if advice := _smaller(plan, strategies):
        return f"{text} {advice}"
    return f"{text} Take larger or more GPUs, or a smaller global batch (or more accumulation)."


def _smaller(plan: Sizing, strategies: Mapping[str, StrategyFacts]) -> str:
    """Name what makes the model fit: half precision or activation checkpointing alone, else both."""
    half: dict[str, Any] = {"precision": plan.instance.half_precision} if plan.precision in ("fp32", "tf32") else {}
    again: dict[str, Any] = {} if plan.activation_checkpointing else {"activation_checkpointing": True}
    alone = [_with(plan, changes, strategies) for changes in (half, again) if changes]
    found = " ".join(filter(None, alone))
    return found or (_with(plan, {**half, **again}, strategies) if half and again else "")


def _with(plan: Sizing, changes: Mapping[str, Any], strategies: Mapping[str, StrategyFacts]) -> str:
    chosen = _chosen(replace(plan, **changes), strategies)[1]
    settings = " and ".join(f"{name}={str(value).lower()}" for name, value in changes.items())
    return f"With {settings} {chosen.strategy} would fit." if chosen else ""


def check_fits(plan: Sizing, strategy: StrategyFacts, candidate: Candidate) -> Row:
    """The row of a strategy that was chosen by hand.

    Raises:
        UserError: the model is too large for it, with what would fit.
    """
    found = estimate(plan, strategy, candidate)
    if found.fits:
        return found
    assert found.memory is not None
    other = recommend(plan, all_strategies(framework=TORCH))
    advice = f"{other.choice.strategy!r} would fit" if other.choice else other.reason
    whose = "GPU" if plan.instance.gpus else "process"
    raise UserError(
        f"strategy {strategy.name!r} needs an estimated {_gib(found.memory.total)} a {whose}, and {plan.instance.name} "
        f"has {_usable(plan)}: {advice.removesuffix('.')}."
    )


def _usable(plan: Sizing) -> str:
    return f"{_gib(plan.usable_memory)} usable ({HEADROOM:.0%} stay free)"


def _gib(nbytes: float) -> str:
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB / 10 else f"{nbytes / 1024**2:.1f} MiB"
