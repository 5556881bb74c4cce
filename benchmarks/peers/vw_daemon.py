"""Vowpal Wabbit's daemon: one process, one connection at a time. Takes a port and options of vw."""

import sys

from vowpal_wabbit_next.cli_driver import run_cli_driver

DAEMON = ["--daemon", "--foreground", "--num_children", "1", "--quiet", "--port"]
run_cli_driver([*DAEMON, *sys.argv[1:]], onethread=True)
