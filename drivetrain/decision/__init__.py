"""Decide if a candidate takes the champion's place: two evaluations and a policy in, a decision out.

    candidate = read_evaluation(Path("build/report"))
    decided = decide(candidate, None, Policy(metric="accuracy", floors='{"accuracy": 0.97}'))
    decided.verdict                                     # "register": there is no champion yet
    write(decided, Path("build/decision"), About(...))  # decision.json for machines, decision.md for people

Nothing here fetches, runs or asks anybody: compare.py does that. The standard library is enough for it.
"""
