"""shapes.json, read once: what the service accepts and answers (see extract_shapes.py for how it is made)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def service() -> dict[str, Any]:
    """`botocore` (version), `requests` and `responses` (step type -> shapes), `shapes` (name -> shape). Do not change.

    Reading takes about a millisecond; nothing is read before the first call.
    """
    return json.loads(Path(__file__).with_name("shapes.json").read_bytes())
