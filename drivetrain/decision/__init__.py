"""Decide if a candidate takes the champion's place: two evaluations and a policy in, a decision out.

    from drivetrain.decision.deciding import decide
    from drivetrain.decision.evaluation import read_evaluation
    from drivetrain.decision.policy import Policy
    from drivetrain.decision.page import About
    from drivetrain.decision.record import write

    candidate = read_evaluation(Path("build/report"))
    decided = decide(candidate, None, Policy(metric="accuracy", floors='{"accuracy": 0.97}'))
    decided.verdict                                     # "register": there is no champion yet
    write(decided, Path("build/decision"), About(...))  # decision.json for machines, decision.md for people

Nothing here fetches, runs or asks anybody: compare.py does that. The standard library is enough for it.
"""
