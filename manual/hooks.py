"""What MkDocs calls while it builds the manual.

`on_files` adds the pictures, the reference and the pages outside of docs/; `on_page_markdown` turns
GitHub's Markdown into what Python-Markdown reads; `on_post_build` lets pages that are opened as
files search, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent.parent))

from manual import github, pictures, reference  # the folder is no installed package

BOOST = {"start.md": 4.0, "howto": 3.0, "tutorials": 3.0, "explanation": 2.0, "command.md": 2.0}
BOOST |= {"decisions": 0.2, "notes": 0.2, "paper": 0.2, "project": 0.3}
"""What the search shows first and last, by folder."""


def on_files(files: Files, config: Any) -> Files:
    made = {**github.pages(), **reference.pages(), **pictures.drawn()}
    made["assets/worker.js"] = (Path(__file__).parent / "worker.js").read_text()
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    room = page.file.src_uri.partition("/")[0]
    page.meta["search"] = {"boost": BOOST.get(room, 1.0)}
    return github.mended(markdown, page.file.src_uri)


def on_post_build(config: Any) -> None:
    index = Path(config.site_dir, "search", "search_index.json")
    index.with_suffix(".js").write_text(f"var __index = {index.read_text()}")
