import json

from tests.benchmarks.harness.tool import Tool

SHOW = (
    "from dagster import DagsterInstance\n"
    "with DagsterInstance.get() as instance:\n"
    "    run = instance.get_runs(limit=1)[0]\n"
    "    print(run.run_id, run.status)\n"
    "    [print(s.step_key, s.status, s.start_time, s.end_time) for s in instance.get_run_step_stats(run.run_id)]\n"
)


def materialize(max_digits: int, selection: str) -> list[str]:
    config = json.dumps({"ops": {"evaluation": {"config": {"max_digits": max_digits}}}})
    dagster = ["dagster", "asset", "materialize", "-f", "digits.py"]
    return [*dagster, "--select", selection, "--config-json", config]


TOOL = Tool(
    run=materialize(4, "*"),
    # Assets upstream are left alone because the user says so.
    changed=materialize(3, 'key:"evaluation"+'),
    runs_list=["dagster", "run", "list"],
    runs_show=["{python}", "-c", SHOW],
    variables={"DAGSTER_HOME": "{work}/instance", "DAGSTER_DISABLE_TELEMETRY": "1"},
    folders=["instance"],
    note="no cache: what is to run again is selected by hand",
)
