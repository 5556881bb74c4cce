"""For mkdocstrings: examples in docstrings become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n(?:^(?!\s*$).*(?:\n|\Z))*\n*)+", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts each example between fences, as nothing else marks it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with its examples between fences.

    >>> fenced("Adds. >>> 1 + 1".replace(" >>>", chr(10) * 2 + ">>>")).split()
    ['Adds.', '```pycon', '>>>', '1', '+', '1', '```']
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text + "\n")
