"""Objects of the cluster, read by kubectl: with the context, the rights and the log-in of the person who asks."""

from __future__ import annotations

import json
import subprocess
from typing import Any, cast

from drivetrain.infra.kubeflow.readiness.place import UnaskedError

Json = dict[str, Any]
_ANSWER_SECONDS, _WHOLE_SECONDS = 15, 60
_MAX_SAID = 120
_OF_ONE_OBJECT = "Error from server (Forbidden)"


class Kubectl:
    """The program, in the context that is current."""

    def __init__(self) -> None:
        self._away = ""

    @property
    def context(self) -> str:
        """Its name in the kubeconfig.

        Raises:
            UnaskedError: there is no kubectl, or no context.
        """
        return self._output("config", "current-context").strip()

    def get(self, kind: str, name: str = "", namespace: str | None = None) -> Json | None:
        """An object, or without a name the list of all; None where there is none, or no such kind.

        Raises:
            UnaskedError: why the cluster did not say.
        """
        where = [] if namespace is None else ["--namespace", namespace]
        names = [name] if name else []
        try:
            text = self._output("get", kind, *names, *where, "-o", "json", f"--request-timeout={_ANSWER_SECONDS}s")
        except _AbsentError:
            return None
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            said = " ".join(text.split())[:_MAX_SAID] or "nothing"
            raise UnaskedError(f"kubectl did not answer with JSON, it printed: {said}")
        return cast("Json", found)

    def may(self, account: str, namespace: str, verb: str, resource: str) -> bool:
        """Ask whether a service account may do something in its namespace.

        Args:
            resource: `NAME[/SUBRESOURCE][.GROUP]`, as a Role has it.

        Raises:
            UnaskedError: why the cluster did not say; also that who asks may not speak for accounts.
        """
        name, _, sub = resource.partition("/")
        part = [f"--subresource={sub}"] if sub else []
        who = f"--as=system:serviceaccount:{namespace}:{account}"
        try:
            said = self._output("auth", "can-i", verb, name, *part, who, "--namespace", namespace, no_is_said=True)
        except _AbsentError:
            return False
        return said.startswith("yes")

    def _output(self, *words: str, no_is_said: bool = False) -> str:
        if self._away:  # not each check waits for it
            raise UnaskedError(self._away)
        try:
            done = subprocess.run(
                ["kubectl", *words], capture_output=True, text=True, timeout=_WHOLE_SECONDS, check=False
            )
        except FileNotFoundError:
            self._away = "kubectl is not on PATH"
        except subprocess.TimeoutExpired:
            self._away = f"kubectl did not answer within {_WHOLE_SECONDS} s"
        else:
            if done.returncode == 0 or (no_is_said and done.stdout.startswith("no")):
                return done.stdout
            said = (done.stderr.strip().splitlines() or ["kubectl failed"])[-1]
            if "(NotFound)" in said or "doesn't have a resource type" in said:
                raise _AbsentError(said)
            if said.startswith(_OF_ONE_OBJECT):
                raise UnaskedError(said)
            self._away = said
        raise UnaskedError(self._away)


class _AbsentError(Exception):
    pass
