"""The matrix of the model as an SVG: which weights there are, and which features share one."""

from __future__ import annotations

from pqrlearn.plots import LIGHT

HIGH = ("site=news", "hour=9", "ad=7")
LOW = ("user=31", "user=32", "city=Ulm", "…")
CELL, NAMES, LEFT, TOP, WIDTH, HEIGHT = 44, 96, 124, 70, 460, 514
_BELOW = "₁₂₃₄₅₆₇"
_OPACITY = {LIGHT.blue: 0.85, LIGHT.orange: 0.75, LIGHT.green: 0.5, LIGHT.rule: 0.6}
NOTES = (
    (LIGHT.green, "one weight for each feature"),
    (LIGHT.blue, "high × high: one weight for each pair"),
    (LIGHT.orange, "high × low: one weight for each high, shared by all low"),
    (LIGHT.rule, "low × low: ignored"),
)


def matrix() -> str:
    """The drawing, in colours that do not depend on the page around it.

    >>> matrix().startswith("<svg")
    True
    """
    features, high, parts = len(HIGH) + len(LOW), len(HIGH), []
    for number, name in enumerate((*HIGH, *LOW)):
        ink = LIGHT.blue if number < high else LIGHT.soft
        top = TOP + CELL * number
        parts.append(_text(NAMES - 8, top + CELL / 2 + 4, name, anchor="end", colour=ink))
        parts.append(_box(NAMES + 2, top + 2, CELL - 4, CELL - 4, LIGHT.green))
        parts.append(_text(NAMES + CELL / 2, top + CELL / 2 + 4, _weight(number)))
        if number:
            parts.append(_slanted(LEFT + CELL * (number + 0.5), TOP - 8, name, ink))
        parts += [_cell(number, other) for other in range(number + 1, features)]
        if number < high:
            parts += _shared(number)
    style = 'font-family="system-ui, sans-serif" font-size="13"'
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
    title = "<title>The weights of PQR: linear, pairs of high features, shared, and none</title>"
    paper = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{LIGHT.paper}"/>'
    return "\n".join([head, title, paper, *parts, *_notes(), "</svg>", ""])


def _weight(number: int) -> str:
    return f"w{_BELOW[number]}" if number < len(HIGH) + len(LOW) - 1 else "…"


def _cell(row: int, column: int) -> str:
    left, top = LEFT + CELL * column + 2, TOP + CELL * row + 2
    if column < len(HIGH):
        box = _box(left, top, CELL - 4, CELL - 4, LIGHT.blue)
        name = f"p{_BELOW[row]}{_BELOW[column]}"
        return box + _text(left + CELL / 2 - 2, top + CELL / 2 + 2, name, colour=LIGHT.paper)
    if row < len(HIGH):
        return ""  # a part of the shared box of this row
    return _box(left, top, CELL - 4, CELL - 4, LIGHT.rule)


def _shared(row: int) -> list[str]:
    left, top, width = LEFT + CELL * len(HIGH) + 2, TOP + CELL * row + 2, CELL * len(LOW) - 4
    name = _text(left + width / 2, top + CELL / 2 + 2, f"q{_BELOW[row]}")
    return [_box(left, top, width, CELL - 4, LIGHT.orange), name]


def _notes() -> list[str]:
    top, parts = TOP + CELL * (len(HIGH) + len(LOW)) + 30, []
    for number, (colour, note) in enumerate(NOTES):
        parts.append(_box(24, top + 24 * number - 12, 14, 14, colour))
        parts.append(_text(46, top + 24 * number, note, anchor="start"))
    ends = "The k most frequent features are high."
    parts.append(_text(24, top + 24 * len(NOTES), ends, anchor="start", colour=LIGHT.blue))
    return parts


def _box(left: float, top: float, width: float, height: float, fill: str) -> str:
    place = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="4" fill="{fill}" fill-opacity="{_OPACITY[fill]}"/>'


def _text(
    left: float, top: float, text: str, anchor: str = "middle", colour: str = LIGHT.ink
) -> str:
    place = f'x="{left:g}" y="{top:g}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{text}</text>'


def _slanted(left: float, top: float, text: str, colour: str) -> str:
    turn = f'transform="rotate(-38 {left:g} {top:g})"'
    return f'<text x="{left:g}" y="{top:g}" {turn} fill="{colour}">{text}</text>'
