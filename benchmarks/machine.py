"""Where and with what it was measured."""

from __future__ import annotations

import json
from functools import partial
from importlib.metadata import version
from pathlib import Path

from pqrlearn.machine import commit as commit_but
from pqrlearn.machine import first_line, machine

__all__ = ["commit", "machine", "versions"]

PEERS = ("vowpalwabbit", "river", "scikit-learn", "myfm")
commit = partial(commit_but, "benchmarks/RESULTS.md", "benchmarks/results-*.json", "docs/cost.*")


def versions(peers_python: Path) -> dict[str, str]:
    """Of this package, and of the peers in their environment if there is one."""
    ours = {"pqrlearn": version("pqrlearn")}
    if not peers_python.exists():
        return ours
    code = "import json, sys; from importlib.metadata import version;"
    code += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    theirs: dict[str, str] = json.loads(first_line(str(peers_python), "-c", code, *PEERS) or "{}")
    return ours | theirs
