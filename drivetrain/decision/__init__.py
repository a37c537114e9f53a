"""Decide if a candidate takes the champion's place: two evaluations and a policy in, a decision out.

    candidate = read_evaluation(Path("build/report"))
    decided = decide(candidate, None, policy(metric="accuracy", floors='{"accuracy": 0.97}'))
    decided.verdict                                     # "register": there is no champion yet
    write(decided, Path("build/decision"), About(...))  # decision.json for machines, decision.md for people

Nothing here fetches, runs or asks anybody: compare.py does that. The standard library is enough for it.
"""

from drivetrain.decision.deciding import Champion, Decision, Registered, check_policy, decide
from drivetrain.decision.evaluation import Evaluation, read_evaluation
from drivetrain.decision.page import About
from drivetrain.decision.policy import Policy, policy
from drivetrain.decision.record import DECISION_FILE, DECISION_PAGE, write

__all__ = [
    "DECISION_FILE",
    "DECISION_PAGE",
    "About",
    "Champion",
    "Decision",
    "Evaluation",
    "Policy",
    "Registered",
    "check_policy",
    "decide",
    "policy",
    "read_evaluation",
    "write",
]
