from tests.benchmarks.harness.tool import Tool

TOOL = Tool(
    run=["drivetrain", "run", "digits.py"],
    changed=["drivetrain", "run", "digits.py", "--set", "max_digits=3"],
    runs_list=["drivetrain", "runs", "list"],
    runs_show=["drivetrain", "runs", "show", "latest"],
)
