"""One self-contained page: contents, figures and tables, light or dark, wide or narrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pqrlearn.plots import DARK, LIGHT, variables


@dataclass(frozen=True)
class Part:
    """A section of a page; its body is HTML."""

    title: str
    body: str

    @property
    def anchor(self) -> str:
        """Where the contents link to.

        >>> Part("Where the loss is worst", "").anchor
        'where-the-loss-is-worst'
        """
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def page(title: str, intro: str, parts: Sequence[Part], *, side_by_side: bool = False) -> str:
    """The page; `intro` is HTML, titles are text. Parts may be side by side where there is room.

    >>> "<h2 id=one>One</h2>" in page("A & B", "", [Part("One", "<p>text</p>")])
    True
    """
    anchors = _different([part.anchor for part in parts])
    links = "".join(
        f'<li><a href="#{anchor}">{escape(part.title)}</a></li>'
        for part, anchor in zip(parts, anchors, strict=True)
    )
    sections = [
        f"<section><h2 id={anchor}>{escape(part.title)}</h2>\n{part.body}</section>"
        for part, anchor in zip(parts, anchors, strict=True)
    ]
    head = [
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
    ]
    contents = f'<nav aria-label="Contents"><h2>Contents</h2><ol>{links}</ol></nav>'
    if side_by_side:
        sections = ["<div class=pair>", *sections, "</div>"]
    body = [f"<h1>{escape(title)}</h1>", intro, contents, *sections]
    lines = ["<!doctype html>", f'<html lang="en"><head>{"".join(head)}</head><body><main>', *body]
    return "\n".join([*lines, "</main></body></html>\n"])


def _different(anchors: Sequence[str]) -> list[str]:
    """A number behind those that are there already."""
    return [
        anchor if anchor not in anchors[:at] else f"{anchor}-{at}"
        for at, anchor in enumerate(anchors)
    ]


def figure(element: str, title: str, caption: str = "", *, wide: bool = False) -> str:
    """An <svg> element with its title and caption; a wide one is scrolled where there is no room.

    >>> figure("<svg ></svg>", "ROC")
    '<figure role="group" aria-label="ROC"><svg role="img" aria-label="ROC" ></svg></figure>\\n'
    """
    marked = element.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    inner = f'<div class="scrolled">{marked}</div>' if wide else marked
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure role="group" aria-label="{escape(title)}">{inner}{text}</figure>\n'


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: int = 1,
    caption: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A table, scrolled where there is no room; the first `text_columns` are text.

    >>> "<td class=text>a &lt; b</td><td>1</td>" in table(["", "rows"], [["a < b", "1"]])
    True
    """

    def line(cells: Sequence[str], tag: str) -> str:
        marked = [
            f"<{tag}{' class=text' if at < text_columns else ''}>{escape(cell)}</{tag}>"
            for at, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(marked)}</tr>"

    body = "\n".join(line(cells, "td") for cells in rows)
    title = f"<p class=title>{escape(caption)}</p>" if caption else ""
    head = f"<thead>{line(columns, 'th')}</thead>" if any(columns) else ""
    below = "".join(f"<p class=note>{escape(note)}</p>" for note in notes)
    label = f' aria-label="{escape(caption)}"' if caption else ""
    whole = f"<table{label}>{head}<tbody>{body}</tbody></table>"
    return f"{title}<div class=scrolled tabindex=0>{whole}</div>{below}\n"


def folded(summary: str, body: str) -> str:
    """Something that is shown when asked for; the body is HTML.

    >>> folded("As a table", "")
    '<details><summary>As a table</summary></details>\\n'
    """
    return f"<details><summary>{escape(summary)}</summary>{body}</details>\n"


STYLE = f"""
:root {{ {variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}
@media print {{ :root {{ {variables(LIGHT)} }} }}
* {{ box-sizing: border-box }}
body {{ margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }}
main {{ max-width: 1240px; margin: 0 auto; padding: 1rem 1rem 4rem }}
h1 {{ font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere }}
h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 1px solid var(--rule) }}
nav h2 {{ margin-top: 1rem }}
nav ol {{ columns: 16rem auto; margin: 0; padding-left: 1.9rem }}
a {{ color: var(--blue) }}
p, li, figcaption {{ overflow-wrap: anywhere }}
.pair {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr));
  gap: 0 2rem; align-items: start }}
.pair section {{ min-width: 0 }}
figure {{ margin: .6rem 0 1rem }}
figure svg {{ display: block; width: 100%; max-width: 36rem; height: auto }}
figure .scrolled svg {{ width: auto; max-width: 100%; min-width: 46rem }}
figcaption, .note {{ color: var(--soft); font-size: 13px; margin: .3rem 0; max-width: 44rem }}
.scrolled {{ overflow-x: auto; margin: .8rem 0 .3rem }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }}
.title {{ font-weight: 600; font-size: 13px; margin: 1.2rem 0 -.4rem }}
th, td {{ text-align: right; padding: .18rem .55rem; vertical-align: bottom }}
td {{ white-space: nowrap; vertical-align: top }}
th.text, td.text {{ text-align: left; padding-left: 0 }}
td.text {{ white-space: normal; overflow-wrap: anywhere; min-width: 7rem }}
th {{ border-bottom: 1px solid var(--soft); font-weight: 600 }}
tbody tr:hover {{ background: color-mix(in srgb, var(--sky) 18%, transparent) }}
summary {{ cursor: pointer; color: var(--blue) }}
"""
