"""HTTP on the loopback address. Python's own server carries it: a page for one person needs no more.

A request must carry the token: the first address has it, a cookie keeps it (SameSite, so that no other page's request
carries it). The Host must be ours, so that another page cannot use a name that leads here (DNS rebinding), and a form
must come from our own pages (Origin).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
import time
import traceback
from collections.abc import Iterator
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from drivetrain.base.errors import UserError
from drivetrain.ui.answers import SCRIPT, Page, answer_of, error_page
from drivetrain.ui.pages import Pages

ADDRESS = "127.0.0.1"
MAX_FORM_BYTES = 64 * 1024
MAX_FIELDS = 100
TIMEOUT_S = 30.0
# A page that is open asks again so late that making it takes this share of a core, but not later than this.
LIVE_SHARE, SLOWEST_LIVE_S = 0.005, 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Server(ThreadingHTTPServer):
    """Serves the pages until it is shut down."""

    daemon_threads = True

    def __init__(self, pages: Pages, port: int = 0, token: str | None = None) -> None:
        """Listen, on a free port unless one is given.

        Raises:
            UserError: the port cannot be had.
        """
        self.pages = pages
        self.took: dict[str, float] = {}
        """Address -> seconds of CPU that its page took when it was made last."""
        self.token = token or secrets.token_urlsafe(24)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"Port {port} of {ADDRESS} cannot be had: {said}. Give another --port.") from None

    @property
    def hosts(self) -> tuple[str, str]:
        """The names by which this server may be asked."""
        return f"{ADDRESS}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        """The address of the first page, with the token."""
        return f"http://{self.hosts[0]}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Cookies are not told apart by port: each server has one of its own name."""
        return f"drivetrain-{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error; anything else is shown here."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "drivetrain"
    sys_version = ""
    timeout = TIMEOUT_S
    # Head and body leave together and at once: sent apart, the second waits 40 ms for the first one's receipt.
    wbufsize, disable_nagle_algorithm = 1 << 16, True

    @property
    def ours(self) -> Server:
        """The server that it answers for."""
        assert isinstance(self.server, Server)
        return self.server

    def do_GET(self) -> None:
        """Answer a request for a page."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body is not read, and is no request
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError as error:
            return self._send(error_page(f"No such address: {error}.", 400)) if self._may_ask() else self._refuse()
        given = query.pop("token", [""])[0]
        if self._is_ours() and given and secrets.compare_digest(given.encode(), self.ours.token.encode()):
            # From here on the cookie has it, and the address does not.
            cookie = f"{self.ours.cookie}={self.ours.token}; Path=/; HttpOnly; SameSite=Strict"
            self._send(Page(status=303, location="/"), {"Set-Cookie": cookie})
        elif not self._may_ask():
            self._refuse()
        elif parts.path == SCRIPT:
            self._send_script()
        else:
            self._answer(lambda: self._get(unquote(parts.path), query))
        return None

    def do_POST(self) -> None:
        """Do what a form asks for."""
        self.close_connection = True  # the form of a request that is refused is not read
        if not self._may_ask():
            return self._refuse()
        if self.headers.get("Origin", "") not in [f"http://{host}" for host in self.ours.hosts]:
            return self._send(error_page("A form must be sent from a page of this server.", 403))
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_FORM_BYTES:
            return self._send(error_page(f"A form has at most {MAX_FORM_BYTES:,} bytes.", 413))
        try:
            path = unquote(urlsplit(self.path).path)
            form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
        except ValueError as error:
            return self._send(error_page(f"No such form: {error}.", 400))
        self._answer(lambda: self.ours.pages.post(path, form))
        return None

    def _get(self, path: str, query: dict[str, list[str]]) -> Page | None:
        """The page; None where the browser has it, as it is, already."""
        changed = f"{self.path}\n{self.ours.pages.changed(path)}"
        self._tag = f'"{hashlib.sha256(changed.encode()).hexdigest()[:32]}"'
        if self.headers.get("X-Live") and self.headers.get("If-None-Match") == self._tag:
            return None
        return self.ours.pages.get(path, query)

    def _answer(self, work: Any) -> None:
        self._tag, begun = "", time.thread_time()
        try:
            page = work()
        except UserError as error:
            page = answer_of(error)
        except Exception:  # ours: the page says that there is one, and this terminal which
            traceback.print_exc()
            page = error_page("This is a mistake of drivetrain's; its terminal shows which.", 500)
        took = time.thread_time() - begun
        if page is not None:  # what is taken but once, such as imports and pictures that stay, says nothing of the next
            self.ours.took[self.path], took = took, min(took, self.ours.took.get(self.path, 0.0))
        next_ms = round(1000 * min(took / LIVE_SHARE, SLOWEST_LIVE_S))
        live = {"ETag": self._tag, "X-Next-Ms": str(next_ms)} if self._tag else {}
        if page is None:
            self._head(304, {**live, "Content-Length": "0"})
        else:
            self._send(page, live)

    def _is_ours(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and hosts[0] in self.ours.hosts

    def _may_ask(self) -> bool:
        try:
            known = SimpleCookie(self.headers.get("Cookie", "")).get(self.ours.cookie)
        except CookieError:
            return False
        found = "" if known is None else known.value
        return self._is_ours() and secrets.compare_digest(found.encode(), self.ours.token.encode())

    def _refuse(self) -> None:
        self.close_connection = True
        said = "Open the address that `drivetrain ui` has printed: it has the token.\n"
        self._head(403, {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(said))})
        self.wfile.write(said.encode())

    def _send(self, page: Page, headers: dict[str, str] | None = None) -> None:
        if page.pieces is not None:
            return self._send_pieces(page.pieces, dict(page.headers))
        body = page.text.encode("utf-8", "replace")
        more = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body)), **(headers or {})}
        if page.location:
            more["Location"] = page.location
        self._head(page.status, more)
        self.wfile.write(body)
        return None

    def _send_pieces(self, pieces: Iterator[bytes], headers: dict[str, str]) -> None:
        """A file, in chunks where its length is not known: so a browser sees that one was cut."""
        self.close_connection = True
        in_chunks = "Content-Length" not in headers
        self._head(200, {**headers, "Connection": "close", **({"Transfer-Encoding": "chunked"} if in_chunks else {})})
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece)
        if in_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _send_script(self) -> None:
        body = Path(__file__).with_name("live.js").read_bytes()
        self._head(200, {"Content-Type": "text/javascript; charset=utf-8", "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for what goes wrong."""
