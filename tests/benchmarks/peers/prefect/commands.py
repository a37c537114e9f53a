from tests.benchmarks.harness.tool import Tool

SHOW = (
    "from prefect.client.orchestration import get_client\n"
    "from prefect.client.schemas.sorting import FlowRunSort\n"
    "with get_client(sync_client=True) as client:\n"
    "    run = client.read_flow_runs(limit=1, sort=FlowRunSort.START_TIME_DESC)[0]\n"
    "    print(run.name, run.state_name)\n"
    "    [print(t.name, t.state_name, t.total_run_time) for t in client.read_task_runs() if t.flow_run_id == run.id]\n"
)

TOOL = Tool(
    run=["{python}", "digits.py", "4"],
    changed=["{python}", "digits.py", "3"],
    runs_list=["prefect", "flow-run", "ls"],
    runs_show=["{python}", "-c", SHOW],
    variables={
        "PREFECT_HOME": "{work}/prefect",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    },
    # Its key of a model is a hash of the pickled object, which changes once when the object comes from the cache.
    runs_until_cached=2,
    folders=["prefect"],
    note="starts a temporary server for every command",
)
