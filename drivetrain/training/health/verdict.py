"""Judge the phases of the steps, in words."""

from __future__ import annotations

import numpy as np

from drivetrain.training.health.record import PHASES, Floats, Table, quantile

# Of a shorter training the first checkpoint is much.
LEAST_SECONDS = 30.0
# A training waits for its data where its slowest rank does in more than this share of its steps, and longer a step [s]:
# less is not worth a word. It is told over so many steps.
INPUT_BOUND, LEAST_WAIT, LEAST_STEPS = 0.4, 0.002, 20
STEP_PHASES = ("data", "communication", "forward", "backward", "optimizer", "compute", "other")


def seconds_of_steps(ranks: Table) -> Floats:
    """Each rank's time in steps [s], without validations and checkpoints."""
    return sum((ranks[name] for name in STEP_PHASES), np.zeros(len(ranks)))


def share_of_steps(ranks: Table, phase: str) -> Floats:
    """A phase's share of each rank's time in steps."""
    total = seconds_of_steps(ranks)
    return ranks[phase] / np.where(total > 0, total, 1.0)


def waiting_for_data(ranks: Table) -> tuple[Floats, Floats]:
    """Each rank's seconds of waiting for data, and of its steps. Both leave out the time in which its thread was ready
    and waited for a CPU, for whatever work. (Older versions did not record it.)"""
    starved = ranks["starved"] if "starved" in ranks.columns else np.zeros(len(ranks))
    return np.maximum(ranks["data"] - starved, 0.0), np.maximum(seconds_of_steps(ranks) - starved, 0.0)


def share_queued(ranks: Table) -> Floats:
    """How much of its data and forward time each rank waited for a CPU; 0 where nobody counted it."""
    own = ranks["data"] + ranks["forward"] if "queued" in ranks.columns else np.zeros(len(ranks))
    return ranks["queued"] / np.where(own > 0, own, 1.0) if own.any() else own


def phases_in_words(ranks: Table, first: Table | None = None) -> str:
    """One sentence on where the time goes, and what to do; "" where nothing was timed.

    Args:
        ranks: seconds of each rank's phases, of any time.
        first: those of the first record, which are among them: files are cold then.
    """
    totals = {name: float(ranks[name].sum()) for name in PHASES}
    whole = sum(totals.values())
    if whole <= 0:
        return ""
    steps = sum(totals[name] for name in STEP_PHASES)
    communication = float(share_of_steps(ranks, "communication").max())
    saving = totals["save"] / whole
    if saving > 0.1 and whole > LEAST_SECONDS * len(ranks):
        return f"checkpoint bound: {saving:.0%} of the time goes into saving; save less often (checkpoint_every=auto)"
    if totals["validation"] > 0.5 * whole:
        share = totals["validation"] / whole
        return f"validation bound: {share:.0%} of the time goes into validations; raise validate_every"
    queued = share_queued(ranks)
    if queued.max() > 0.25:
        rank = int(queued.argmax())
        return (
            f"short of CPUs: rank {rank} waits for one in {queued[rank]:.0%} of the time for its data and its forward "
            "pass; run fewer processes or threads on its host"
        )
    share = _share_of_waiting(ranks, first)
    if share > INPUT_BOUND:
        return f"input pipeline bound: {share:.0%} of the step waits for data; raise workers"
    if steps and communication > 0.35:
        return (
            f"communication bound: {communication:.0%} of the step waits for other ranks; raise global_batch or "
            "accumulation"
        )
    compute = totals["forward"] + totals["backward"] + totals["optimizer"] + totals["compute"]
    return f"compute bound: {compute / steps if steps else 0:.0%} of the step computes"


def _share_of_waiting(ranks: Table, first: Table | None) -> float:
    """The share of time in which the slowest rank waits for data; 0 if the rule `slow_input` would have nothing to
    say."""
    if first is not None:
        columns = {name: values - first[name] for name, values in ranks.columns.items() if name in first.columns}
        ranks = Table(ranks.names, columns)
    waited, whole = waiting_for_data(ranks)
    rank, steps = int(waited.argmax()), float(ranks["steps"].mean())
    if steps < LEAST_STEPS or waited[rank] <= LEAST_WAIT * steps:
        return 0.0
    return float(waited[rank] / whole[rank])


def stragglers(ranks: Table) -> list[dict[str, float]]:
    """The ranks, the slowest first: the shortest step [s] before it meets the others, and beside the median of all."""
    own = ranks["own"]
    if len(own) < 2 or not (own > 0).all():
        return []
    usual = float(quantile(own, 0.5))
    rows = [
        {"rank": rank, "seconds": float(own[rank]), "to_median": float(own[rank]) / usual} for rank in range(len(own))
    ]
    return sorted(rows, key=lambda row: -row["seconds"])
