"""Spellings of the release before: they work, with a note. To be removed with the next release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

SHOWN: Final = ("probability", "margin", "label")
FORMS: Final = ("lines", "csv", "jsonl")


def renewed(arguments: list[str], note: Callable[[str], None]) -> list[str]:
    """The arguments of `pqr`, with old options of predict and evaluate in their new spelling."""
    if not arguments or arguments[0] not in ("predict", "evaluate"):
        return arguments
    command, *rest = arguments
    found = [command]
    for option, value in _pairs(rest):
        new = _new_name(command, option, value)
        if new is not None:
            note(f"{option} {value} is now {new} {value}; the next release drops the old form")
        found += [part for part in (new or option, value) if part is not None]
    return found


def _pairs(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Each option that may be old with its value, also when given as --option=value."""
    rest = iter(arguments)
    for one in rest:
        name, equals, value = one.partition("=")
        if name not in ("--model", "--output", "--to"):
            yield one, None
        else:
            yield name, value if equals else next(rest, None)


def _new_name(command: str, option: str, value: str | None) -> str | None:
    if option == "--model":
        return "--model-file"
    if command == "predict" and option == "--output" and value in SHOWN:
        return "--as"
    if command == "predict" and option == "--to" and value not in (*FORMS, None):
        return "--output"
    return None
