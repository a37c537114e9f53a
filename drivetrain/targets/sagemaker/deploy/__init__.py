"""The life of a pipeline in an account: what is there, what would change, changing it, and what it then does.

Every call goes through ../account.py, and every refusal becomes one clear message in ../refusals.py.

    desired.py             what the code says                deployed.py           what is there, and what was
    wire.py                the text that is sent, its hash                         applied last
    ownership.py           whose it is
    objects.py             code, data, records in the bucket lock.py               one writer at a time
    listing.py             every pipeline of the account, or one by its name or ARN
    deployer.py            all of it as the commands ask for it (../../deployer.py)

planning/: what would change

    planning.py            the comparison                    drift.py              edits of others, refused
    account_resources.py   what is beside the definition
    triggers.py            rules and schedules               forecast.py           what the cache takes
    consequences.py        what follows: permissions, cost, warnings

applying/: changing it

    applying.py            the writes, in their order        destroying.py         takes it away
    writing.py             writes the pipeline, and takes back what was done of it

executions/: what it then does

    executions.py          start, stop, describe             following.py          its events, its logs
    execution_jobs.py      the jobs of its steps             execution_report.py   time, cost, spot saving
"""
