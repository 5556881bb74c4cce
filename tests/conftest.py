"""What holds for every test: signals as at a terminal, and properties without a clock."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell lets jobs in the background ignore SIGINT (nohup make test &), and children inherit that:
# a test could not interrupt the command it has started.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine an example may take any time. Other health checks do not look at the clock.
settings.register_profile(
    "busy machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")
