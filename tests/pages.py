"""The blocks of code in README.md and docs/, and how they are run.

A block is between fences that name its language. Blocks of one page run in order, in one folder. A
comment above a block says why it is not run, or which data set it needs:

    <!-- not run: needs a cluster -->
    <!-- needs data: ml-100k -->

A `text` block below a `sh` block shows lines of its output.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from command import PQR, SECONDS

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
_FENCED = re.compile(
    r"(?:<!-- (?P<mark>not run|needs data): (?P<reason>.*?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$(?:\n\n^```text\n(?P<shown>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?$")


@dataclass(frozen=True)
class Block:
    """Some lines of code in a page."""

    page: str
    line: int
    language: str
    text: str
    shown: str = ""
    """What its output has, among other lines."""
    not_run: str = ""
    """Why it is not run."""
    needs: str = ""
    """The data set that it needs."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """All blocks between fences."""
    text = (ROOT / page).read_text()
    found = []
    for match in _FENCED.finditer(text):
        mark, reason = match["mark"], match["reason"] or ""
        found.append(
            Block(
                page,
                text.count("\n", 0, match.start("text")) + 1,
                match["language"],
                match["text"],
                match["shown"] or "",
                reason if mark == "not run" else "",
                reason if mark == "needs data" else "",
            )
        )
    return found


def unmarked(page: str) -> list[str]:
    """Lines of code that are not between fences with a language, so that nothing runs them."""
    text = (ROOT / page).read_text()
    loose = [match["text"] for match in _FENCED.finditer(text) if not match["language"]]
    rest = _FENCED.sub("", text).splitlines()
    loose += [line.strip() for line in rest if line.startswith("    ")]
    return re.findall(r"^(?:pqr|pip|make|curl|from|import) .*", "\n".join(loose), re.MULTILINE)


def at_a_shell(script: str, folder: Path) -> str:
    """Runs a script that must succeed; what it prints, errors among it."""
    environment = os.environ | {
        "PATH": f"{Path(PQR).parent}:{os.environ['PATH']}",
        "COLUMNS": "120",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout


def not_printed(shown: str, printed: str) -> list[str]:
    """Lines shown in a page that a command did not print in this order, but for small differences.

    >>> not_printed("rows  50,000\\nLogLoss 0.427", "a\\nrows   50,000 in all\\nLogLoss 0.428\\n")
    []
    >>> not_printed("LogLoss 0.427", "LogLoss  0.5\\n")
    ['LogLoss 0.427']
    """
    lines = iter(printed.splitlines())
    wanted = filter(str.strip, shown.splitlines())
    return [one for one in wanted if not any(_begins(line.split(), one.split()) for line in lines)]


def _begins(found: list[str], shown: list[str]) -> bool:
    pairs = zip(found, shown, strict=False)
    return len(found) >= len(shown) and all(_alike(a, b) for a, b in pairs)


def _alike(found: str, shown: str) -> bool:
    """Equal, or two numbers of which one is within a twentieth of the other: other processors round
    in another way, which learning may amplify."""
    if found == shown:
        return True
    if not (_NUMBER.match(found) and _NUMBER.match(shown)):
        return False
    a, b = (float(text.replace(",", "")) for text in (found, shown))
    return abs(a - b) <= 0.05 * max(abs(a), abs(b))
