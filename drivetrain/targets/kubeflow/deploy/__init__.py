"""The life of a pipeline on a cluster: what is there, what would change, changing it, and what it then does.

Plain HTTP on the v2beta1 REST API. kfp.Client takes 1.7 s of CPU time to import and is an extra; it repeats no request,
and does not tell a lost answer, after which a pipeline could be started or scheduled twice. Tests hold each request
against the models of the official client.

    rest.py         one request: token, time-outs, repeats, and one clear error
    service.py      the requests that there are         objects.py      code and data in S3, and whose it is
    shapes.py       what answers look like                bounded.py      an answer that ends in time
    server.py       its version, whether it is for several users
    desired.py      what the code says                  deployed.py     what is there, and who made it
    differences.py  two IRs compared, in words          planning.py     what applying would change
    applying.py     makes it so, or takes it back       destroying.py   takes it away
    starter.py      starts one when a model changes in the registry
    deployer.py     all of it as the commands ask for it (../../deployer.py)

executions/: what a deployed pipeline then does

    executions.py   list, describe, stop                starting.py     start one, once
    steps.py        what happened of the steps of one   workflow.py     the Argo Workflow, which says it
    following.py    look at one again; what its pods printed

A version of a pipeline is named NUMBER-HASH: the hash is that of the IR, and the number grows, so that going back to an
earlier IR is a new version, too. The newest version is the deployed one, as for the platform itself.
"""
