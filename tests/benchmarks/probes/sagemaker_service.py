"""The stand-in for AWS as a process of its own, so that its CPU time is not the command's. Prints one line of JSON: the
variables of an account in which nothing is but an empty bucket. Ends when its standard input does.

    PYTHONPATH=. python tests/benchmarks/probes/sagemaker_service.py
"""

from __future__ import annotations

import json
import sys

from tests.fixtures.sagemaker_service.server import sagemaker_service

account = sagemaker_service().new_account()
found = {"number": account.number, "variables": account.variables, "bucket": account.make_bucket()}
print(json.dumps(found), flush=True)
sys.stdin.read()
