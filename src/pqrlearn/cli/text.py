"""Text that is safe to print, whatever a file name or the name of a feature contains."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x7f-\x9f]")


def printable(text: str) -> str:
    """Control characters escaped: a terminal would obey them.

    >>> print(printable("rows\x1b[2J.svm"))
    rows\\x1b[2J.svm
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_json(text: str) -> str:
    """The same for JSON, which escapes only some control characters by itself."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
