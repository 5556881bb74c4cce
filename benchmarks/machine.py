"""Where and with what it was measured."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

PEERS = ("vowpalwabbit", "river", "scikit-learn")


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": _first_line("c++", "--version") or "compiler not found",
        "load": os.getloadavg()[0],
    }


def commit() -> str:
    """HEAD, and whether the working tree differs from it in anything but these results."""
    head = _first_line("git", "rev-parse", "HEAD")
    if not head:
        return "not a git checkout"
    others = [".", ":!benchmarks/RESULTS.md", ":!benchmarks/results-*.json", ":!docs/cost.*"]
    changed = _first_line("git", "--no-optional-locks", "status", "--porcelain", "--", *others)
    return f"{head} (dirty)" if changed else head


def versions(peers_python: Path) -> dict[str, str]:
    """Of this package, and of the peers in their environment if there is one."""
    ours = {"pqrlearn": version("pqrlearn")}
    if not peers_python.exists():
        return ours
    code = "import json, sys; from importlib.metadata import version;"
    code += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    theirs: dict[str, str] = json.loads(_first_line(str(peers_python), "-c", code, *PEERS) or "{}")
    return ours | theirs


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _first_line(*command: str) -> str:
    """Of what a command prints; nothing if it fails or does not exist."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.partition("\n")[0].strip()
