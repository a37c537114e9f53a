from tests.benchmarks.harness.tool import Tool

TOOL = Tool(
    run=["{python}", "digits.py", "4"],
    changed=["{python}", "digits.py", "3"],
    note="kfp.local has no cache and keeps no runs",
)
