from tests.benchmarks.harness.tool import Tool

LIST = "from metaflow import Flow; [print(run.id, run.finished_at, run.successful) for run in Flow('Digits')]"
SHOW = (
    "from metaflow import Flow; run = Flow('Digits').latest_run; "
    "[print(step.id, step.task.finished_at, step.task.successful) for step in run]"
)

TOOL = Tool(
    run=["{python}", "digits.py", "run", "--max_digits", "4"],
    changed=["{python}", "digits.py", "run", "--max_digits", "3"],
    runs_list=["{python}", "-c", LIST],
    runs_show=["{python}", "-c", SHOW],
    variables={"METAFLOW_USER": "bench", "USERNAME": "bench"},
    note="no cache, and `resume` takes no changed parameter: everything runs again",
)
