"""Conclude a run: write its page, what it was made with, and the values by which it is found.

Notices are sent, too, of the end and of a model that waits for approval: to a chat's webhook, and by mail.

    DRIVETRAIN_NOTICE_URL=https://hooks.slack.com/services/...     Slack's and its like, or a webhook of Teams
    DRIVETRAIN_NOTICE_MAIL=team@example.com                        several by commas
    DRIVETRAIN_SMTP=smtp://user:password@mail.example.com:587      smtps:// for TLS from the first byte

They are variables since the URL and the password are secrets. What cannot be delivered is said, and changes nothing
else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from drivetrain.base.formatting import duration, printable, status_word
from drivetrain.run_store.reasons import in_a_line
from drivetrain.run_store.run_values import CURVE, DECIDES, INDEXED, Value, enter_values
from drivetrain.telling.content import RunFacts, main_curve
from drivetrain.telling.content.from_ledger import record_environment, run_facts, save_page
from drivetrain.telling.content.given import Compared, given_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drivetrain.run_store.home import Home
    from drivetrain.telling.content import RunFacts


URL, MAIL, SMTP = "DRIVETRAIN_NOTICE_URL", "DRIVETRAIN_NOTICE_MAIL", "DRIVETRAIN_SMTP"
TIMEOUT_S = 20.0
# Webhooks of Teams' workflows take cards alone (https://learn.microsoft.com/power-automate/overview-adaptive-cards).
_CARDS = (".logic.azure.com", ".powerplatform.com")


def notice_text(run: RunFacts) -> str:
    """The text of a notice: how the run ended, and which models wait for approval."""
    lines = [f"{run.pipeline} {status_word(run.shown_status)} after {duration(run.seconds)} (run {run.id})"]
    lines += [f"nothing new since {run.nothing_new_since}"] if run.nothing_new_since else []
    if run.status not in ("Succeeded", "Stopped"):
        reasons = [f"{step.name}: {in_a_line(step.reason)}" for step in run.failures() if step.reason]
        lines += reasons[:3] or ([in_a_line(run.reason)] if run.reason else [])
    lines += [
        f"{model.group} version {model.version} waits for approval: drivetrain models approve {model.group} "
        f"{model.version}"
        for model in run.models
        if model.status == "PendingManualApproval"
    ]
    return "\n".join(map(printable, lines))


def send(run: RunFacts, environment: Mapping[str, str] | None = None) -> list[str]:
    """Send what the variables ask for; gives what could not be delivered, a sentence each."""
    given = os.environ if environment is None else environment
    if not given.get(URL) and not given.get(MAIL):
        return []
    return list(_problems(notice_text(run), given))


def _problems(text: str, given: Mapping[str, str]) -> Iterator[str]:
    if url := given.get(URL):
        from drivetrain.steps.kubeflow.notice import post

        try:
            host = urlsplit(url).hostname or ""
            if urlsplit(url).scheme not in ("http", "https") or not host:
                yield f"{URL} is no https:// URL. Give that of a webhook."
            else:
                post(url, _content(host, text))
        except (OSError, ValueError) as error:  # its text may hold the URL, which is a secret
            code = getattr(error, "code", "")
            yield f"The notice to ${URL} could not be delivered: {type(error).__name__} {code}".rstrip() + "."
    if to := given.get(MAIL):
        try:
            _mail(to, text, given.get(SMTP, ""))
        except ValueError as error:
            yield str(error)
        except OSError as error:  # smtplib's errors are of this kind
            yield f"The notice to {to} could not be sent by ${SMTP}: {type(error).__name__}."


def _content(host: str, text: str) -> Any:
    if not host.endswith(_CARDS):
        return {"text": text}
    block = {"type": "TextBlock", "text": text.replace("\n", "\n\n"), "wrap": True}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _mail(to: str, text: str, server: str) -> None:
    """
    Raises:
        ValueError: the server is not given, or not understood.
        OSError: it cannot be reached, or refuses.
    """
    import smtplib
    from email.message import EmailMessage

    parts = urlsplit(server)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise ValueError(f"${MAIL} is set, and ${SMTP} is no server. Give smtp://USER:PASSWORD@HOST:PORT.")
    message = EmailMessage()
    message["Subject"], _, rest = text.partition("\n")
    message["To"] = to
    message["From"] = unquote(parts.username) if parts.username and "@" in unquote(parts.username) else to
    message.set_content(rest or text)
    if parts.scheme == "smtps":
        client: smtplib.SMTP = smtplib.SMTP_SSL(parts.hostname, parts.port or 465, timeout=TIMEOUT_S)
    else:
        client = smtplib.SMTP(parts.hostname, parts.port or 587, timeout=TIMEOUT_S)
    with client:
        client.ehlo()
        encrypted = parts.scheme == "smtps" or client.has_extn("starttls")
        if encrypted and parts.scheme == "smtp":
            client.starttls()
        if parts.username and not encrypted:
            raise ValueError(f"${SMTP} has a password, and the server takes no encryption. Give one that does.")
        if parts.username:
            client.login(unquote(parts.username), unquote(parts.password or ""))
        client.send_message(message)


def conclude(home: Home, execution: str) -> tuple[RunFacts, Path]:
    """Write down what an ended run came to, and send notices of it; gives its facts and the file of its page.

    Raises:
        UserError: the run's folder was removed.
    """
    from drivetrain.run_store.reader import Ledger

    home.refuse_removed(home.run(execution))
    record_environment(home, execution)
    with Ledger(home) as ledger:
        facts = run_facts(ledger, execution)
    page = save_page(home, facts)
    _enter(home, [facts])
    for problem in send(facts):
        print(f"warning: {problem}", file=sys.stderr)
    return facts, page


def enter_missing(home: Home) -> int:
    """Enter the values of runs that ended without it: those of earlier versions, and those whose process was killed at
    the last moment. Gives how many there were; none where the ledger cannot be written, as in an archive."""
    from drivetrain.run_store.reader import Ledger

    if not os.access(home.root, os.W_OK) or not home.ledger.exists():
        return 0
    with Ledger(home) as ledger:
        missing = ledger.rows(
            "SELECT id FROM executions e WHERE ended IS NOT NULL AND NOT EXISTS "
            "(SELECT 1 FROM run_values v WHERE v.name = ?1 AND v.execution = e.id AND v.kind = ?1)",
            INDEXED,
        )
        facts = [run_facts(ledger, id) for (id,) in missing]
    _enter(home, facts)
    return len(facts)


def _enter(home: Home, runs: Iterable[RunFacts]) -> None:
    from drivetrain.run_store.writer import LedgerWriter

    found = [(run.id, _values(home, run)) for run in runs]
    if not found:
        return
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        for id, values in found:
            db.execute("DELETE FROM run_values WHERE execution = ? AND kind IN ('setting', 'metric')", (id,))
            enter_values(db, id, values)


def _values(home: Home, run: RunFacts) -> list[Value]:
    of_run = Compared(facts=run, given=given_settings(home, run.id))
    logged = {curve.name: curve.points[-1][1] for curve in run.curves if curve.points}
    metrics = {**logged, **of_run.metrics}
    values: list[Value] = [("metric", name, value) for name, value in metrics.items()]
    values += [(DECIDES, name, 1) for name in run.deciding if name in metrics]
    values += [("parameter", name, value) for name, value in run.parameters.items()]
    values += [("setting", name, value) for name, value in of_run.settings.items() if name not in run.parameters]
    curve = main_curve(run.curves)
    if curve is not None:
        values.append((CURVE, curve.name, json.dumps(curve.thinned())))
    return [*values, (INDEXED, INDEXED, 1)]
