"""What every test stands on."""

from __future__ import annotations

import os
import signal
import sys

# A shell that starts the tests in the background makes them ignore ctrl+c, and their child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests start hundreds of processes. Where bytecode is not kept, each of them would compile the product anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: some of the tests wait for real processes, and somebody may work meanwhile."""
    return (os.cpu_count() or 1) + 1
