"""Runs of the compiled YAML on this machine, by kfp's own local runner.

    runner.py       an execution from its beginning to its end
    book.py         what the tasks report, as rows of the ledger and events
    skeleton.py     the pipeline's steps as a definition, for the ledger and the page
    recorded.py     inputs and outputs of steps; data from outside that is not there
    kfp_process.py  the process that has kfp and executes the YAML: kfp's gaps, tasks as forks of one interpreter

kfp executes the DAG; each task is our start file and the step's program, as in the cluster. Tasks say through a pipe
when they begin and how they end, so that nothing is read out of kfp's log.
"""
