"""The permissions of a deployed pipeline: derived from its definition, no more than it needs, without an account.

    derived = derive(definition, Names.of(pipeline))    # policies.derive: by the pipeline's account, bucket and roles
    for policy in derived.policies: ...                 # one a role, with who may take it on
    derived.notes                                       # what could not be derived

The tests play a deployment and a run through, call by call, written apart from what is here, and let a small evaluator
of IAM decide on each (tests/fixtures/iam): every call is allowed, and each permission taken away fails one.
"""
