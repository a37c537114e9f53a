"""The life of a pipeline in an account: what is there, what would change, changing it, and what it then does.

Every call goes through one place, and every refusal becomes one clear message:

    account.py             calls, credentials, region        refusals.py           what AWS refuses, in words
    limits.py              quotas of a new account           wire.py               the text that is sent, and its hash
    objects.py             code, data, records in the bucket

What is there, and what the code says should be:

    deployed.py            the pipeline, and what was        desired.py            what the code says
                           applied last                      triggers.py           its rules and schedules
    surroundings.py        what is beside its definition     listing.py            every pipeline of the account

What would change:

    planning.py            the comparison                    whole_plan.py         with cost and permissions
    forecast.py            what the cache takes              consequences.py       what roles must be allowed
    plan_files.py          a plan read back                  plan_words.py         a plan for people
    surrounding_words.py   edits beside the definition

Changing it:

    applying.py            makes it so                       rollback.py           takes back what was done of it
    writing.py             writes the pipeline               destroying.py         takes it away
    lock.py                one writer at a time

What it then does:

    executions.py          start, stop, describe             following.py          as the events of a local run
    execution_jobs.py      the jobs of its steps             execution_report.py   time, cost, spot saving
    logs.py                what the jobs printed
"""
