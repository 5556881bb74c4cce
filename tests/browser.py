"""A page in a real Chromium, driven by its own chromedriver over HTTP."""

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

SECONDS = 120


class Browser:
    """One window. https://www.w3.org/TR/webdriver2 has the protocol."""

    def __init__(self, root: str) -> None:
        self._root = root

    def ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._root + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path) -> None:
        self.ask("POST", "/url", url=path.as_uri())

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.ask("POST", "/execute/sync", script=script, args=[])

    def errors(self) -> list[str]:
        """What the console has complained about since the last call."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", type="browser")]


@contextmanager
def browser(folder: Path, width: int, *, dark: bool = False) -> Iterator[Browser]:
    """A new browser whose page is `width` CSS pixels wide; `folder` is for its files."""
    needs_program("chromium", package="chromium")
    needs_program("chromedriver", package="chromium-driver")
    arguments = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"),
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
    ]
    metrics = {"width": width, "height": 900, "pixelRatio": 1.0, "mobile": width < 500}
    capabilities = {
        "goog:chromeOptions": {
            "args": arguments,
            "mobileEmulation": {"deviceMetrics": metrics},
        },
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            root = f"http://127.0.0.1:{_port(driver)}"
            start = Browser(root)
            always = {"capabilities": {"alwaysMatch": capabilities}}
            session = start.ask("POST", "/session", **always)["sessionId"]
            window = Browser(f"{root}/session/{session}")
            try:
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
