"""Runs a command; prints how long it took and the most memory it held, as JSON:

    python -I -S stopwatch.py STDOUT STDERR COMMAND ...

A process of its own, and a small one: to Linux, the peak memory of a command begins with that of
the process that started it. What was written before is flushed first, so that no command pays for
the one before it.
"""

import json
import os
import sys
import time


def main(stdout: str, stderr: str, command: list[str]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams = [
        (os.POSIX_SPAWN_OPEN, descriptor, path, flags, 0o644)
        for descriptor, path in ((1, stdout), (2, stderr))
    ]
    os.sync()
    start = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=streams)
    _, status, usage = os.wait4(process, 0)
    measured = {
        "seconds": time.perf_counter() - start,
        "code": os.waitstatus_to_exitcode(status),
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "user_seconds": usage.ru_utime,
        "system_seconds": usage.ru_stime,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
