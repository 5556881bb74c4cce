"""Pages as GitHub shows them, for MkDocs: files outside of docs/, links between them, and lists."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTSIDE = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/RESULTS.md",
    "fuzz/README.md",
)
"""Pages of the project that the manual has, too; the README is its first page."""
_HOMES = {"README.md": "index.md"} | {path: f"project/{path}" for path in OUTSIDE}
_SOURCES = {page: path for path, page in _HOMES.items()}
_LINK = re.compile(r"(!?)\[([^][]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
"""To another file; not to a place in the same one, and not to another site."""
_FENCE = re.compile(r"^\s*```")
_BLOCK = re.compile(r"^(\||[-*] |\d+\. )")


def pages() -> dict[str, str]:
    """The pages that do not lie in docs/, by their place in the manual."""
    found = {page: (ROOT / path).read_text() for path, page in _HOMES.items()}
    return found | {"decisions/index.md": _decisions()}


def _decisions() -> str:
    lines = ["# Decisions\n", "Choices that could have gone the other way, half a page each.\n"]
    for path in sorted((ROOT / "docs/decisions").glob("*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def mended(markdown: str, page: str) -> str:
    """A page with links within the manual, and lists and tables that Python-Markdown sees."""
    parts, fenced, before = [""], False, ""  # parts are by turns text and code
    for line in markdown.splitlines(keepends=True):
        is_fence = bool(_FENCE.match(line))
        if is_fence and not fenced:
            parts.append("")
        elif not fenced and _BLOCK.match(line) and _interrupts(before):
            parts[-1] += "\n"
        parts[-1] += line
        if is_fence and fenced:
            parts.append("")
        fenced ^= is_fence
        before = line
    for at in range(0, len(parts), 2):
        parts[at] = _LINK.sub(lambda link: _relinked(link, page), parts[at])
    return "".join(parts)


def _interrupts(before: str) -> bool:
    """Whether a block after this line would be taken for a part of its paragraph."""
    return bool(before.strip()) and not _BLOCK.match(before) and not before.startswith(" ")


def _relinked(link: re.Match[str], page: str) -> str:
    bang, text, target, anchor = link.groups()
    here = _SOURCES.get(page, f"docs/{page}")
    path = os.path.normpath(os.path.join(os.path.dirname(here), target))
    if path == "docs/decisions":
        path += "/index.md"
    home = _HOMES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
    if home is None:
        return f"`{path}`" if path.endswith(text.strip("`")) else f"{text} (`{path}`)"
    relative = os.path.relpath(home, os.path.dirname(page) or ".")
    return f"{bang}[{text}]({relative}{anchor or ''})"
