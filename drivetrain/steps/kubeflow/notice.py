"""The program of the task that posts a notice when a run has ended, however it ended.

    python3 -c TEXT STATUS RUN        TEXT is this file's own: it needs nothing but the standard library

STATUS is the platform's JSON (PipelineTaskFinalStatus). What is posted to $DRIVETRAIN_NOTICE_URL is JSON as well, with
the text that Slack and its like show: {"text", "pipeline", "run", "state", "error"}. Without the variable, as in a run
on one machine, nothing is posted. A notice that cannot be delivered fails the task, and with it nothing else.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

ATTEMPTS, TIMEOUT_S = 4, 20.0


def notice(status: dict[str, Any], run: str, pipeline: str) -> dict[str, str]:
    """The text to post, made from the platform's status."""
    state = str(status.get("state", "UNKNOWN"))
    told: dict[str, Any] = status.get("error") or {}
    error = str(told.get("message") or "")
    text = f"Pipeline {pipeline}, run {run}: {state}" + (f". {error}" if error else "")
    return {"text": text, "pipeline": pipeline, "run": run, "state": state, "error": error}


def post(url: str, content: dict[str, Any], wait_s: float = 2.0) -> None:
    """Post it; what the last attempt raises, or one that another would not change, is raised."""
    data = json.dumps(content).encode()
    for attempt in range(1, ATTEMPTS + 1):
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return
        except OSError as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else 500
            if attempt == ATTEMPTS or (code < 500 and code != 429):
                raise
        time.sleep(wait_s * 2**attempt)


def main() -> None:
    content = notice(json.loads(sys.argv[1]), sys.argv[2], os.environ["DRIVETRAIN_PIPELINE"])
    print(content["text"], flush=True)
    url = os.environ.get("DRIVETRAIN_NOTICE_URL")
    if url is None:
        print("$DRIVETRAIN_NOTICE_URL is not set here, so nothing is posted.", flush=True)
        return
    if not url.startswith(("https://", "http://")):
        sys.exit("error: the Secret's entry is no https:// URL. Put the webhook's URL into it.")
    try:
        post(url, content)
    except OSError as error:  # its text may hold the URL, which is a secret
        code = f" {error.code}" if isinstance(error, urllib.error.HTTPError) else ""
        sys.exit(f"error: the notice could not be delivered: {type(error).__name__}{code}.")


if __name__ == "__main__":
    main()
