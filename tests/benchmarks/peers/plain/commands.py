from tests.benchmarks.harness.tool import Tool

TOOL = Tool(run=["{python}", "digits.py", "4"], changed=["{python}", "digits.py", "3"])
