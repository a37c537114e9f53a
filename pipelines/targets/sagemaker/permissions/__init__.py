"""What a deployed pipeline may do: derived from its definition, no more than it needs, and checked without an account.

    names = Names.of(pipeline)                  # account, region, bucket, roles: where everything lies
    for policy in policies(compiled.definition, names): ...     # one for each role: what it is allowed
    for request in requests(compiled.definition, names): ...    # what deploying and running it asks of AWS
    decide(request, policy.statements)          # a small evaluator of IAM policies

The two sides are written apart: `statements` says what a role is allowed, `requests` plays a deployment and a run
through, call by call. The tests hold one against the other: every call is allowed, and each permission taken away
fails one.
"""
