from tests.benchmarks.harness.tool import Tool

SHOW = (
    "from zenml.client import Client\n"
    "run = Client().get_pipeline('digits').last_run\n"
    "print(run.name, run.status)\n"
    "[print(step.name, step.status, step.end_time) for step in run.steps.values()]\n"
)

TOOL = Tool(
    run=["{python}", "digits.py", "4"],
    changed=["{python}", "digits.py", "3"],
    runs_list=["zenml", "pipeline", "runs", "list"],
    runs_show=["{python}", "-c", SHOW],
    variables={"ZENML_CONFIG_PATH": "{work}/zenml", "ZENML_ANALYTICS_OPT_IN": "false"},
    folders=["zenml"],
)
