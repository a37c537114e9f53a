"""What the phases of the steps say, in words."""

from __future__ import annotations

import numpy as np

from drivetrain.training.health.record import PHASES, Floats, Table, quantile

# Of a shorter training the first checkpoint is much.
LEAST_SECONDS = 30.0
STEP_PHASES = ("data", "communication", "forward", "backward", "optimizer", "compute", "other")


def seconds_of_steps(ranks: Table) -> Floats:
    """Each rank's time in steps [s], without validations and checkpoints."""
    return sum((ranks[name] for name in STEP_PHASES), np.zeros(len(ranks)))


def share_of_steps(ranks: Table, phase: str) -> Floats:
    """A phase's share of each rank's time in steps."""
    total = seconds_of_steps(ranks)
    return ranks[phase] / np.where(total > 0, total, 1.0)


def share_queued(ranks: Table) -> Floats:
    """How much of its data and forward time each rank waited for a CPU; 0 where nobody counted it."""
    own = ranks["data"] + ranks["forward"] if "queued" in ranks.columns else np.zeros(len(ranks))
    return ranks["queued"] / np.where(own > 0, own, 1.0) if own.any() else own


def phases_in_words(ranks: Table) -> str:
    """One sentence on where the time goes, and what to do; "" where nothing was timed.

    Args:
        ranks: seconds of each rank's phases, of any time.
    """
    totals = {name: float(ranks[name].sum()) for name in PHASES}
    whole = sum(totals.values())
    if whole <= 0:
        return ""
    steps = sum(totals[name] for name in STEP_PHASES)
    shares = {name: float(share_of_steps(ranks, name).max()) for name in ("data", "communication")}
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
    if steps and shares["data"] > 0.25:
        return f"input pipeline bound: {shares['data']:.0%} of the step waits for data; raise workers"
    if steps and shares["communication"] > 0.35:
        return (
            f"communication bound: {shares['communication']:.0%} of the step waits for other ranks; raise global_batch "
            "or accumulation"
        )
    compute = totals["forward"] + totals["backward"] + totals["optimizer"] + totals["compute"]
    return f"compute bound: {compute / steps if steps else 0:.0%} of the step computes"


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
