"""The two minutes' notice of a spot machine that is about to be taken away, from the machine's metadata service.

A platform that sends SIGTERM has no need of it; on machines of one's own, and where a platform tells late, it is the
first to know. Asked every five seconds, as EC2 recommends, from a thread of its own; where no service answers at the
start it is never asked again.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html,
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html (IMDSv2)
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from drivetrain.training.launch.cluster import BASE_VARIABLE, Cluster

# The variables of AWS's own tools.
ENDPOINT, DISABLED = "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED"
DEFAULT_ENDPOINT = "http://169.254.169.254"
PAUSE_SECONDS, TIMEOUT_SECONDS, TOKEN_SECONDS = 5.0, 1.0, 21600
# A container's packets take one hop more than a token's answer may (HttpPutResponseHopLimit 1): then nothing answers.
FIRST_TRIES = 2


def is_asked(mode: str, cluster: Cluster, environment: Mapping[str, str]) -> bool:
    """Return True if a metadata service is to be asked: `mode` is on, off, or auto: where a platform runs us.

    Not from a plain shell, nor under a runner that only imitates a platform: the machine below it may be a spot
    machine, and none of the job's business.
    """
    if environment.get(DISABLED, "").lower() == "true" or mode == "off":
        return False
    return mode == "on" or (cluster.contract != Cluster.contract and BASE_VARIABLE not in environment)


class SpotNotice:
    """Asks in the background while the context is open, if it `asks` at all; `given` is what the service said, "" as
    long as it says nothing."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        asks: bool = True,
        pause: float = PAUSE_SECONDS,
        say: Callable[[str], None] = print,
    ) -> None:
        self.given = ""
        self._endpoint = environment.get(ENDPOINT) or DEFAULT_ENDPOINT
        self._asks, self._pause, self._say = asks, pause, say
        self._token, self._told = "", False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name="spot notice", daemon=True)

    def tick(self) -> None:
        """Once there is a notice, act as if this process had been sent SIGTERM; on the main thread."""
        if self.given and not self._told:
            self._told = True
            self._say(f"spot notice: {self.given}")
            signal.raise_signal(signal.SIGTERM)

    def __enter__(self) -> SpotNotice:
        if self._asks:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()  # it may be waiting for an answer: nobody waits for it

    def _ask_on(self) -> None:
        for _ in range(FIRST_TRIES):
            status, self._token = self._request("PUT", "/latest/api/token", {_TTL: str(TOKEN_SECONDS)})
            if status == 200:
                break
            if self._ended.wait(self._pause):
                return
        else:
            return
        self._say("watching for the machine's spot notice")
        while not self._ended.is_set():
            status, text = self._request("GET", "/latest/meta-data/spot/instance-action", {_TOKEN: self._token})
            if status == 200:
                self.given = _described(text)
                return
            if status == 401:  # the token's time is over
                status, token = self._request("PUT", "/latest/api/token", {_TTL: str(TOKEN_SECONDS)})
                self._token = token if status == 200 else self._token
            self._ended.wait(self._pause)

    def _request(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """The status and the answer; 0 without an answer. Never through a proxy: the address is the machine's own."""
        from http.client import HTTPConnection, HTTPException

        where = urlsplit(self._endpoint)
        connection = HTTPConnection(where.hostname or "", where.port or 80, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read(4096).decode("utf-8", "replace")
        except (OSError, HTTPException):  # no such service, or it is busy: asked again
            return 0, ""
        finally:
            connection.close()


_TTL, _TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"


def _described(text: str) -> str:
    """`{"action": "terminate", "time": "2026-11-21T08:22:00Z"}` for people."""
    try:
        said = json.loads(text)
        return f"{said['action']} at {said['time']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an interruption"
