"""Where and with what it was measured."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

from benchmarks.measure import PEERS_PYTHON
from pqrlearn.machine import commit as commit_but
from pqrlearn.machine import first_line, machine

__all__ = ["circumstances", "commit", "machine"]

PEERS = ("vowpalwabbit", "vowpal-wabbit-next", "river", "scikit-learn", "xlearn", "myfm")
WRITTEN = ("benchmarks/RESULTS.md", "benchmarks/results.json", "benchmarks/studies/*.json")
WRITTEN += (
    "benchmarks/SERVE.md",
    "benchmarks/serve.json",
    "docs/cost.md",
    "docs/profile.md",
    "docs/paper/tables.md",
)
"""What these measurements write themselves: a change there does not make a commit dirty."""
commit = partial(commit_but, *WRITTEN)


def circumstances() -> dict[str, Any]:
    """What a result must say of itself; taken before anything is measured."""
    return {
        "date": datetime.now(UTC).isoformat(" ", "seconds"),
        "command": shlex.join(sys.orig_argv),
        "commit": commit(),
        "machine": machine(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    """Of this package, and of the peers in their environment if there is one."""
    ours = {"pqrlearn": version("pqrlearn")}
    if not PEERS_PYTHON.exists():
        return ours
    code = "import json, sys; from importlib.metadata import distributions;"
    code += "found = {one.name: one.version for one in distributions()};"
    code += "print(json.dumps({name: found[name] for name in sys.argv[1:] if name in found}))"
    theirs: dict[str, str] = json.loads(first_line(str(PEERS_PYTHON), "-c", code, *PEERS) or "{}")
    return ours | theirs
