"""The page of a service, in a real Chromium."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from browser import Browser, browser
from command import SECONDS
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from serving import Running, busy

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"
TOKEN = "a-token-for-predict-1"
SIZES = [(1280, False), (1280, True), (390, False), (390, True)]
CHARTS = ("rates", "loss", "drift", "calibration")


def open_page(window: Browser, url: str) -> None:
    window.ask("POST", "/url", url=url)


def wait(window: Browser, script: str) -> Any:
    """What the script returns, once that is true."""
    deadline = time.monotonic() + SECONDS
    while not (found := window.run(f"return {script}")):
        shown = window.run("return document.body.innerText")
        assert time.monotonic() < deadline, f"{script} stays false; the page shows:\n{shown}"
        time.sleep(0.05)
    return found


def text(id: str) -> str:
    return f"document.getElementById('{id}').innerText"


def fill(window: Browser, id: str, value: str, form: str) -> None:
    """Sets a field as a person would, and sends its form."""
    script = "const [id, value, form] = arguments; document.getElementById(id).value = value;"
    script += "document.querySelector(`#${form} button`).click();"
    window.ask("POST", "/execute/sync", script=script, args=[id, value, form])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Has learned for 90 seconds of its own clock, from rows of a hostile stranger too."""
    folder, random = tmp_path_factory.mktemp("page") / "log", Random(1)
    begin = time.time() - 100
    for seconds in range(0, 90, 15):
        service = Service(folder, Settings(), clock=lambda: begin + seconds)  # noqa: B023
        busy(service, random, 120)
        for number in range(10):
            service.learn(f"hostile-{seconds}-{number}", 1, features={HOSTILE: 3, "site": "news"})
        service.commit()
        service.close()
    with Running(folder, "--readers", 1, "--reader-port", 0) as running:
        yield running


@pytest.fixture(scope="module")
def window(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser"), 1280) as window:
        open_page(window, running.url)
        yield window


def test_the_page_shows_how_the_service_is_doing(window: Browser) -> None:
    wait(window, f"{text('state')} === 'ready'")
    assert wait(window, text("about")).startswith("auto, logistic; ")
    assert 0 < float(window.run(f"return {text('loss')}")) < 1
    assert "constant 0." in window.run(f"return {text('losses')}")
    assert "LR 0." in window.run(f"return {text('losses')}")
    assert "oldest" in window.run(f"return {text('oldest')}")
    assert "95 % within" in window.run(f"return {text('delays')}")
    health = window.run(f"return {text('health')}")
    assert "writes and syncs" in health
    assert "Disk free" in health
    wait(window, f"{text('readers')}.includes('ago')")
    for chart in CHARTS:
        wait(window, f"document.querySelectorAll('#chart-{chart} path.series').length >= 2")


def test_the_page_follows_new_rows(running: Running, window: Browser) -> None:
    script = "Number(document.getElementById('waiting').innerText.replace(',', ''))"
    before = wait(window, script)
    rows = [{"features": {"site": "new"}}] * 7
    answers = running.ok("/v1/predict:batch", {"rows": rows})["rows"]
    wait(window, f"{script} === {before + 7}")
    labels = [{"id": answer["id"], "label": 1} for answer in answers]
    running.ok("/v1/learn:batch", {"rows": labels})
    wait(window, f"{script} === {before}")


def test_weights_are_found_by_name(window: Browser) -> None:
    rows = "document.querySelectorAll('#weights tbody tr')"
    wait(window, f"{rows}.length > 0")
    window.run("document.getElementById('block').value = 'linear'")
    fill(window, "search-text", "site=", "search")
    every = f"[...{rows}].every(row => row.innerText.startsWith('site='))"
    assert wait(window, f"{rows}.length >= 3 && {every}")
    fill(window, "search-text", "no such feature", "search")
    wait(window, f"{text('weights-note')}.includes('no such feature')")
    fill(window, "search-text", "", "search")
    wait(window, f"{rows}.length > 3")


def test_a_row_is_explained(running: Running, window: Browser) -> None:
    row = '{"site": "news", "hour": "9", "price": 0.5}'
    fill(window, "row", row, "explain")
    features = {"site": "news", "hour": "9", "price": 0.5}
    expected = running.ok("/v1/explain", {"features": features})
    said = wait(window, text("explained"))
    assert said.startswith(f"prediction {expected['prediction']:.4f}")
    assert "site=news" in window.run(f"return {text('terms')}")


@pytest.mark.parametrize(("row", "why"), [("{", "not a JSON object"), ("[1]", "Expected `object`")])
def test_a_row_that_cannot_be_explained_says_why(window: Browser, row: str, why: str) -> None:
    fill(window, "row", row, "explain")
    wait(window, f"{text('explained')}.includes('{why}')")
    window.errors()  # Chromium notes each status of 4xx


def test_names_of_a_stranger_are_text(window: Browser) -> None:
    window.run("document.getElementById('block').value = 'linear'")
    fill(window, "search-text", "<b>", "search")
    wait(window, f"{text('weights')}.includes('<b>bold</b>')")
    fill(window, "row", json.dumps({HOSTILE: 3, "site": "news"}), "explain")
    wait(window, f"{text('terms')}.includes('<b>bold</b>')")
    fill(window, "search-text", "", "search")
    assert window.run("return document.querySelectorAll('td > :not(svg)').length") == 0
    assert window.run("return document.title") == "pqr serve"


def test_everything_comes_from_the_service_itself(running: Running, window: Browser) -> None:
    policy = httpx.get(running.url).headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    script = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    found = window.run(script)
    assert {url.removeprefix(running.url) for url in found} >= {"/page/page.js", "/page/page.css"}
    assert all(url.startswith(running.url) for url in found)


@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_the_page_fits(running: Running, tmp_path: Path, width: int, dark: bool) -> None:
    with browser(tmp_path, width, dark=dark) as window:
        open_page(window, running.url)
        wait(window, f"{text('state')} === 'ready'")
        fill(window, "row", '{"site": "news", "hour": "9"}', "explain")
        wait(window, "document.querySelectorAll('#terms tbody tr').length > 0")
        wait(window, "document.querySelectorAll('#weights tbody tr').length > 0")
        assert window.run("return document.documentElement.scrollWidth <= innerWidth")
        back = window.run("return getComputedStyle(document.body).backgroundColor")
        red = int(back.removeprefix("rgb(").partition(",")[0])
        assert red < 60 if dark else red > 200
        assert window.errors() == []


def test_a_token_is_kept_in_the_tab_alone(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'predict = "{TOKEN}"\nadmin = "another-token-of-admin"\n')
    with (
        Running(tmp_path / "log", "--tokens", tokens) as running,
        browser(tmp_path, 1280) as window,
    ):
        open_page(window, running.url)
        wait(window, "!document.getElementById('token').hidden")
        fill(window, "token-text", "not-the-right-token", "token")
        wait(window, f"{text('trouble')}.includes('does not know this token')")
        fill(window, "token-text", TOKEN, "token")
        wait(window, f"{text('state')} === 'ready'")
        fill(window, "row", '{"site": "news"}', "explain")
        wait(window, f"{text('explained')}.startsWith('prediction')")
        assert window.run("return [localStorage.length, document.cookie]") == [0, ""]
        open_page(window, running.url)
        wait(window, f"{text('state')} === 'ready'")
        window.run("document.getElementById('forget').click()")
        wait(window, f"{text('state')} === 'token needed'")
        open_page(window, "about:blank")
        open_page(window, f"{running.url}/#token={TOKEN}")
        wait(window, f"{text('state')} === 'ready'")
        assert window.run("return location.href") == f"{running.url}/"


def test_the_page_says_that_the_service_is_gone_and_finds_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with browser(tmp_path, 390) as window:
        with Running(folder) as running:
            port = httpx.URL(running.url).port
            open_page(window, running.url)
            wait(window, f"{text('state')} === 'ready'")
            running.kill()
            wait(window, f"{text('trouble')}.includes('does not answer')")
        with Running(folder, "--port", port):
            wait(window, f"{text('state')} === 'ready'")
            assert window.run("return document.getElementById('trouble').hidden")
