"""The machine and the commit of a measurement."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": first_line("c++", "--version") or "compiler not found",
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan,
    }


def commit(*outputs: str) -> str:
    """HEAD of the source tree, marked dirty if anything but these outputs has changed."""
    head = first_line("git", "rev-parse", "HEAD")
    if not head:
        return "not a git checkout"
    others = [".", *(f":!{output}" for output in outputs)]
    status = ("git", "--no-optional-locks", "status", "--porcelain", "--")
    return f"{head} (dirty)" if first_line(*status, *others) else head


def first_line(*command: str) -> str:
    """The first line that a command prints in the source tree; empty if it fails."""
    root = Path(__file__).parent.parent.parent
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def _memory_gb() -> int | None:
    """None where the system does not tell."""
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
