"""Draw the pictures of the README anew: `make pictures`. Needs Chromium for the page.

docs/pictures/run.svg    what `drivetrain run retraining` prints on a terminal
docs/pictures/page.png   the page of that run
docs/pictures/ui.png     the runs in the browser (drivetrain ui)
docs/pictures/pages/     every page, light, on a phone, a small and a large window (docs/pages.md)
"""

from __future__ import annotations

import base64
import csv
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from rich.console import Console  # noqa: TID251
from rich.text import Text  # noqa: TID251

from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.ui.pages import Pages
from drivetrain.ui.server import Server
from tests.fixtures.browser import Browser

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
SCREENING = Path(__file__).parent / "fixtures" / "screening"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 104
WIDTHS = (400, 1000, 1800)
MAX_HEIGHT = 2000
QUALITY = 28
MAX_BYTES = 800_000
# What clears the lines of the progress before they are printed again.
_ERASED = re.compile(r"\x1b\[\d+F\x1b\[J")


def on_a_terminal(command: list[str], folder: Path) -> str:
    """What a command prints last on a terminal, with its colours.

    Raises:
        SystemExit: it failed.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "LINES": "40", "TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # Linux says so where the other end of a terminal is closed.
                break
            printed += piece
    os.close(ours)
    text = printed.decode().replace("\r\n", "\n").replace("\x1b[?25l", "").replace("\x1b[?25h", "")
    if process.returncode:
        sys.exit(f"{command} failed:\n{text[-2000:]}")
    return _ERASED.split(text)[-1]


def draw_terminal(text: str, title: str, file: Path) -> None:
    """Write the picture of a terminal with this text in it."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        console.print(Text("$ drivetrain run retraining\n") + Text.from_ansi(text.rstrip()))
        file.write_text(console.export_svg(title=title), encoding="utf-8")


def draw_pages(home: Home, list_file: Path, folder: Path) -> None:
    """Write the picture of the list of runs, and those of every page at each width.

    Raises:
        SystemExit: they are larger than MAX_BYTES together, or a page is wider than its window.
    """
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.webp"):
        file.unlink()
    server = Server(Pages(home, lambda: LocalRegistry(home.ledger)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Browser() as browser:
        browser.look(1100, height=520)
        browser.open(server.address)
        browser.picture(list_file)
        last, first, binary = browser.run("[...document.querySelectorAll('input[name=run]')].map((e) => e.value)")
        # Name -> its address, and the part of the page that is drawn.
        pages = {
            "runs": ("/", "body"),
            "run": (f"/runs/{last}", "body"),
            "compare": (f"/compare?run={last}&run={first}", "body"),
            "threshold": (f"/runs/{binary}", ".below:has(> .costs)"),
            "health": (f"/runs/{binary}", "section[aria-labelledby=health]"),
            "models": ("/models", "body"),
            "card": ("/models/retraining/2", "body"),
            "triggers": ("/starts", "body"),
        }
        for name, (path, part) in pages.items():
            for width in WIDTHS:
                browser.look(width)
                browser.open(server.address.partition("/?")[0] + path)
                wide, top, tall = browser.run(
                    f"((box) => [document.documentElement.scrollWidth, box.top + scrollY, box.height])"
                    f"(document.querySelector('{part}').getBoundingClientRect())"
                )
                if wide > width:
                    sys.exit(f"{path} is {wide} wide in a window of {width}.")
                clip = {"x": 0, "y": top, "width": width, "height": min(tall, MAX_HEIGHT), "scale": 1}
                shot = browser.call(
                    "Page.captureScreenshot", format="webp", quality=QUALITY, captureBeyondViewport=True, clip=clip
                )
                (folder / f"{name}-{width}.webp").write_bytes(base64.b64decode(shot["data"]))
    server.shutdown()
    server.server_close()
    size = sum(file.stat().st_size for file in folder.glob("*.webp"))
    if size > MAX_BYTES:
        sys.exit(f"The pictures of the pages have {size:,} bytes. Allowed: {MAX_BYTES:,}.")


def write_tumours(file: Path) -> None:
    """Write a table with a row a sample: id, 30 measurements of mean 0 and deviation 1, malignant."""
    from sklearn.datasets import load_breast_cancer

    measured, benign = load_breast_cancer(return_X_y=True)
    measured = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(["id", *(f"m{number}" for number in range(measured.shape[1])), "malignant"])
        for number, (row, is_benign) in enumerate(zip(measured, benign, strict=True)):
            writer.writerow([number, *(f"{value:.4f}" for value in row), 1 - is_benign])


def main() -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"No browser. Install one of: {', '.join(BROWSERS)}.")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drivetrain = [sys.executable, "-m", "drivetrain.cli.main"]
        shutil.copytree(SCREENING, folder, dirs_exist_ok=True)
        write_tumours(folder / "tumours.csv")
        binary = ["run", "screening.py", "--home", "home"]
        subprocess.run([*drivetrain, *binary], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        # The second run has a champion to be compared with.
        weak = ["--set", "seed=1", "--set", "epochs=2", "--set", "min_accuracy=0.1"]
        for command in (["run", "retraining", *weak], ["models", "approve", "retraining", "1"]):
            subprocess.run([*drivetrain, *command, "--home", "home"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        text = on_a_terminal([*drivetrain, "run", "retraining", "--home", "home"], folder)
        draw_terminal(text, "drivetrain", FOLDER / "run.svg")
        (page,) = re.findall(r"Report: (\S+)", text)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,900"]
        shot = f"--screenshot={FOLDER / 'page.png'}"
        subprocess.run(
            [browser, *options, shot, (folder / page).as_uri()], check=True, stderr=subprocess.DEVNULL, timeout=120
        )
        draw_pages(Home(folder / "home"), FOLDER / "ui.png", FOLDER / "pages")
    print(f"Wrote {FOLDER}/run.svg, page.png, ui.png and pages/.")


if __name__ == "__main__":
    main()
