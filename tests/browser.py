"""Pages in a real Chromium, driven by its own chromedriver over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from programs import needs_program

SECONDS = 300
"""To wait for an answer, on a machine that is busy."""
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)

_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is this machine


class Browser:
    """One window of a WebDriver session."""

    def __init__(self, root: str) -> None:
        self._root = root

    def ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._root + path, data, headers, method=method)
        with _DIRECTLY.open(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def _command(self, name: str, **parameters: Any) -> None:
        self.ask("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def open(self, path: Path, width: int, *, dark: bool) -> None:
        """Loads a page from a file."""
        self.resize(width, dark=dark)
        self.ask("POST", "/url", url=path.as_uri())

    def resize(self, width: int, *, dark: bool) -> None:
        """Makes the window `width` CSS pixels wide; narrow ones are phones."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self._command("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.ask("POST", "/execute/sync", script=script, args=[])

    def errors(self) -> list[str]:
        """What the console has complained about since the last call."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", type="browser")]


@contextmanager
def browser(folder: Path, width: int = 1280, *, dark: bool = False) -> Iterator[Browser]:
    """A new browser; `folder` is for its files."""
    needs_program("chromium", package="chromium")
    needs_program("chromedriver", package="chromium-driver")
    capabilities = {
        "goog:chromeOptions": {"args": [*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"]},
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            root = f"http://127.0.0.1:{_port(driver)}"
            wanted = {"capabilities": {"alwaysMatch": capabilities}}
            session = Browser(root).ask("POST", "/session", **wanted)["sessionId"]
            window = Browser(f"{root}/session/{session}")
            try:
                window.resize(width, dark=dark)
                yield window
            finally:
                window.ask("DELETE", "")
        finally:
            driver.terminate()


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if found := re.search(r"on port (\d+)\.", line):
            return int(found[1])
    raise AssertionError("chromedriver has not started")
