from pathlib import Path

from tests.benchmarks.harness.tool import Tool

COMPILE = ["{python}", "digits.py", "3"]

# The SDK compiles, it runs nothing here: these variables keep it from looking for a network, an account or a role.
TOOL = Tool(
    run=COMPILE,
    changed=COMPILE,
    variables={
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(Path(__file__).with_name("config.yaml")),
        "SAGEMAKER_VALIDATE_ROLE": "false",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_EC2_METADATA_DISABLED": "true",
    },
)
