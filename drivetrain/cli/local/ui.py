"""`drivetrain ui`: the runs and models of this machine in the browser."""

from __future__ import annotations

from typing import Annotated

from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Option
from drivetrain.cli.options import Home
from drivetrain.telling.terminal import say

app = App()


@app.command()
def ui(
    port: Annotated[
        int, Option("--port", min=0, max=65_535, metavar="N", help="The port to listen on  [default: a free one]")
    ] = 0,
    open_: Annotated[bool, Option("--open", help="Show it in the browser.")] = False,
    home: Home = None,
    as_json: Annotated[
        bool, Option("--json", help="Print address, token, port and process id as JSON, for scripts.")
    ] = False,
) -> None:
    """Look at runs and models in the browser, while they go on.

    It lists runs, filters and compares them, follows one as it runs, shows its files and logs, stops it and runs it
    again, and approves, rejects and rolls back models. It listens on this machine alone, and only who has the address
    that it prints may look. Ctrl-C ends it; runs that were started there go on.

    \b
    Examples:
      drivetrain ui
      drivetrain ui --open --port 8300
    """
    import json
    import os
    import signal
    import sys
    import threading

    from drivetrain.operations.models import opened
    from drivetrain.ui.pages import Pages
    from drivetrain.ui.server import Server

    place = local_home(home)
    if home is not None and not place.root.exists():
        print(f"note: {place.nothing_run()}", file=sys.stderr)
    pages = Pages(place, lambda: opened(None, home))
    server = Server(pages, port)
    ended = threading.Event()

    def end(number: int, frame: object) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    thread = threading.Thread(target=server.serve_forever, name="ui", daemon=True)
    thread.start()
    try:
        if as_json:
            where = {"url": server.address, "token": server.token, "port": server.server_port, "pid": os.getpid()}
            say(json.dumps(where))
        else:
            say(f"{server.address}\nCtrl-C ends.")
        sys.stdout.flush()
        # (Not in this thread: it waits for Ctrl-C, which in the middle of an import is no orderly end.)
        threading.Thread(target=pages.prepare, name="prepare", daemon=True).start()
        if open_:
            import webbrowser

            webbrowser.open(server.address)
        ended.wait()
    except KeyboardInterrupt:
        if not as_json:
            say()  # the terminal shows ^C
    finally:
        server.shutdown()
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)
