"""Addresses of services, `http(s)://HOST[:PORT][/PATH]`: checked before anything is sent to one."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit

ALLOWED = "http:// or https://, a host, and where needed :PORT and /PATH, such as https://kubeflow.example.com/pipeline"
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")


def address_problem(text: str) -> str | None:
    """Why a text is no address, in words that end without a full stop; None where it is one."""
    if not text.isascii():
        return "it has letters beyond ASCII; write such a host in its form with xn--"
    if not all("!" <= letter <= "~" for letter in text):
        return "it has a space or a line break"
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return "its host has an unpaired bracket, or no IPv6 address in its brackets"
    if parts.scheme not in ("http", "https"):
        return "it does not begin with http:// or https://"
    if any(sign in text for sign in "@?#"):
        return "it has a user, a query or a fragment (@, ? or #)"
    if not (_is_ipv6(host) if ":" in host else _HOST.fullmatch(host) and len(host) <= 253):
        return "it has no valid host"
    try:
        port = parts.port
    except ValueError:
        port = 0
    return None if port is None or 0 < port < 65_536 else "its port is no number from 1 to 65535"


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True
