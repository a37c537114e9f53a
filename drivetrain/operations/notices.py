"""Send notices of a run's end, and of a model that waits for approval: to a chat's webhook, and by mail.

    DRIVETRAIN_NOTICE_URL=https://hooks.slack.com/services/...     Slack's and its like, or a webhook of Teams
    DRIVETRAIN_NOTICE_MAIL=team@example.com                        several by commas
    DRIVETRAIN_SMTP=smtp://user:password@mail.example.com:587      smtps:// for TLS from the first byte

They are variables since the URL and the password are secrets. What cannot be delivered is said, and changes nothing
else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from drivetrain.base.formatting import duration, printable, status_word
from drivetrain.run_store.reasons import in_a_line
from drivetrain.steps.kubeflow.notice import post

if TYPE_CHECKING:
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
